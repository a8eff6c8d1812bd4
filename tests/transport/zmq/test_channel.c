/* Channels to a hub: nothing waits, the last message arrives, and only those with a key are let in. */
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "millrace/channel.h"
#include "millrace/keys.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static const int64_t SECOND = 1000000000;
static char folder_key[2][256], folder_pub[2][256];

static mr_channel *listening(const char *key, const char *allow) {
    mr_channel *channel = NULL;
    assert_int_equal(mr_channel_listen(&channel, "tcp://127.0.0.1:*", key, allow, 1000, 8), MR_OK);
    return channel;
}

/* Where it listens. */
static const char *endpoint_of(const mr_channel *channel) {
    static char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1%s", strrchr(mr_channel_endpoint(channel), ':'));
    return endpoint;
}

/* Sends until a receiver is connected. */
static void send_text(mr_channel *channel, const char *text) {
    int status = MR_ERROR_AGAIN;
    for (int i = 0; i < 2000 && status == MR_ERROR_AGAIN; i++) {
        status = mr_channel_send(channel, text, strlen(text));
        if (status)
            zmq_poll(NULL, 0, 5);
    }
    assert_int_equal(status, MR_OK);
}

static void expect_text(mr_channel *channel, const char *text) {
    const void *data;
    size_t bytes;
    int status = MR_ERROR_AGAIN;
    for (int i = 0; i < 100 && status == MR_ERROR_AGAIN; i++)
        status = mr_channel_receive(channel, &data, &bytes, SECOND / 10);
    assert_int_equal(status, MR_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(data, text, bytes);
}

TEST(a_message_without_a_receiver_is_lost_at_once) {
    mr_channel *sender = NULL, *receiver = listening(NULL, NULL);
    const char *endpoint = endpoint_of(receiver);
    mr_channel_close(&receiver, 0);
    assert_int_equal(mr_channel_connect(&sender, endpoint, NULL, NULL), MR_OK);
    assert_int_equal(mr_channel_send(sender, "a", 1), MR_ERROR_AGAIN);
    /* The receiver comes later, and again. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mr_channel_listen(&receiver, endpoint, NULL, NULL, 1000, 8), MR_OK);
        send_text(sender, "b");
        expect_text(receiver, "b");
        mr_channel_close(&receiver, 0);
        for (int tries = 0; tries < 2000 && !mr_channel_send(sender, "c", 1); tries++)
            zmq_poll(NULL, 0, 5);
    }
    mr_channel_close(&sender, 500);
}

TEST(the_last_message_arrives_if_the_sender_ends) {
    mr_channel *sender = NULL, *receiver = listening(NULL, NULL);
    assert_int_equal(mr_channel_connect(&sender, endpoint_of(receiver), NULL, NULL), MR_OK);
    for (int i = 0; i < 40; i++) {
        if (!sender)
            assert_int_equal(mr_channel_connect(&sender, endpoint_of(receiver), NULL, NULL), MR_OK);
        send_text(sender, "first");
        send_text(sender, "last");
        mr_channel_close(&sender, 10000);
        expect_text(receiver, "first");
        expect_text(receiver, "last");
    }
    mr_channel_close(&receiver, 0);
}

TEST(wrong_messages_reach_nobody) {
    mr_channel *receiver = listening(NULL, NULL);
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PUSH);
    static const char large[1001];
    assert_int_equal(zmq_connect(socket, endpoint_of(receiver)), 0);
    assert_int_equal(zmq_send(socket, "a", 1, ZMQ_SNDMORE), 1);
    assert_int_equal(zmq_send(socket, "b", 1, 0), 1);
    assert_int_equal(zmq_send(socket, "whole", 5, 0), 5);
    expect_text(receiver, "whole");
    assert_int_equal(zmq_send(socket, large, sizeof large, 0), sizeof large); /* ends the connection */
    mr_channel *sender = NULL;
    assert_int_equal(mr_channel_connect(&sender, endpoint_of(receiver), NULL, NULL), MR_OK);
    send_text(sender, "other");
    expect_text(receiver, "other");
    mr_channel_close(&sender, 0);
    zmq_close(socket);
    zmq_ctx_term(context);
    mr_channel_close(&receiver, 0);
}

static int make_keys(void **state) {
    int status = make_temporary_folder(state);
    static const char *const names[] = {"hub", "run"};
    for (int i = 0; !status && i < 2; i++) {
        mr_key_pair pair;
        status = mr_key_pair_generate(&pair) || mr_key_pair_write(&pair, temporary_folder, names[i]);
        mr_key_pair_forget(&pair);
        snprintf(folder_key[i], sizeof folder_key[i], "%s/%s.key", temporary_folder, names[i]);
        snprintf(folder_pub[i], sizeof folder_pub[i], "%s/%s.pub", temporary_folder, names[i]);
    }
    return status;
}

TEST_WITH(only_allowed_keys_are_let_in, make_keys, remove_temporary_folder) {
    mr_channel *receiver = listening(folder_key[0], folder_pub[1]), *good = NULL, *bad = NULL;
    const char *endpoint = endpoint_of(receiver);
    /* The hub's own key is not in the list. */
    assert_int_equal(mr_channel_connect(&bad, endpoint, folder_key[0], folder_pub[0]), MR_OK);
    for (int i = 0; i < 2000 && !mr_channel_refused(receiver); i++) {
        assert_int_equal(mr_channel_send(bad, "bad", 3), MR_ERROR_AGAIN);
        zmq_poll(NULL, 0, 5);
    }
    assert_true(mr_channel_refused(receiver) > 0);
    assert_int_equal(mr_channel_connect(&good, endpoint, folder_key[1], folder_pub[0]), MR_OK);
    send_text(good, "good");
    expect_text(receiver, "good");
    assert_int_equal(mr_channel_peers(receiver), 1);
    mr_channel_close(&bad, 500);
    mr_channel_close(&good, 0);
    mr_channel_close(&receiver, 0);
}

TEST(other_machines_need_keys) {
    mr_channel *channel = NULL;
    assert_int_equal(mr_channel_connect(&channel, "tcp://hub.example.com:9200", NULL, NULL), MR_ERROR_CONFIG);
    assert_non_null(strstr(mr_message(), "can be reached from other machines"));
    assert_int_equal(mr_channel_listen(&channel, "tcp://0.0.0.0:9200", NULL, NULL, 1000, 8), MR_ERROR_CONFIG);
    assert_null(channel);
}

RUN_TESTS(NULL, NULL)
