"""For PyInstaller: a frozen program gets the libraries, the command and what makes models. PyInstaller would leave out
some libraries by their names, and does not see those that are opened while running."""
import pathlib

_PACKAGE = pathlib.Path(__file__).parent
_FOLDERS = (_PACKAGE / "bin", _PACKAGE / "share", _PACKAGE.parent / "millrace.libs")
datas = [(str(path), str(path.parent.relative_to(_PACKAGE.parent)))
         for folder in _FOLDERS for path in folder.rglob("*") if path.is_file()]
