"""Produces and consumes with the published Pulsar client, and says what happened.

    pulsar_roundtrip.py SCENARIO URL [ROOT] LOG

ROOT is a file with the root certificate, for a URL with TLS. Ends with 0 if all was as it should be. What the client itself has to say goes to the file LOG.
"""

import re
import sys
import threading
import time

import pulsar

EARLIEST = pulsar.InitialPosition.Earliest
# Milliseconds to wait for a message that is to come.
PATIENCE = 20_000


def words(count, prefix="m"):
    return [f"{prefix}-{number:05}" for number in range(count)]


def produce(client, topic, messages, **options):
    """Sends all without waiting for each, and returns when each has its receipt."""
    failures = []
    producer = client.create_producer(topic, **options)
    for text in messages:
        producer.send_async(text.encode(), lambda result, _: result == pulsar.Result.Ok or failures.append(result))
    producer.flush()
    producer.close()
    assert not failures, failures


def consume(consumer, count, keep=lambda _: True):
    """Receives so many, acknowledges those to keep, and returns all."""
    texts = []
    for _ in range(count):
        message = consumer.receive(PATIENCE)
        texts.append(message.data().decode())
        if keep(texts[-1]):
            consumer.acknowledge(message)
    return texts


def silent(consumer):
    try:
        raise AssertionError(f"{consumer.receive(500).data()} came again")
    except pulsar.Timeout:
        return True


def acks(client):
    """What is acknowledged does not come again, what is not does."""
    for batching in (False, True):
        topic, sent = f"acks-{batching}", words(100)
        options = {"batch_index_ack_enabled": batching, "initial_position": EARLIEST}
        consumer = client.subscribe(topic, "s", **options)
        produce(client, topic, sent, batching_enabled=batching, batching_max_publish_delay_ms=50)
        odd = [text for text in sent if int(text[2:]) % 2]
        assert consume(consumer, 100, keep=lambda text: text not in odd) == sent
        consumer.close()
        consumer = client.subscribe(topic, "s", **options)
        assert consume(consumer, 50, keep=lambda _: False) == odd
        consumer.close()
        consumer = client.subscribe(topic, "s", **options)
        for _ in odd:
            last = consumer.receive(PATIENCE)
        consumer.acknowledge_cumulative(last)
        consumer.close()
        consumer = client.subscribe(topic, "s", **options)
        assert silent(consumer)
        consumer.unsubscribe()
        print(f"batching {batching}: 100 sent and received in order, 50 acknowledged, the other 50 came again")


def partitioned(client):
    """All partitions are written and read, each in order."""
    consumer = client.subscribe("partitioned", "s", initial_position=EARLIEST)
    for batching in (False, True):
        sent = words(400, f"batching-{batching}")
        produce(client, "partitioned", sent, batching_enabled=batching, batching_max_messages=10)
        by_partition = {}
        for _ in sent:
            message = consumer.receive(PATIENCE)
            by_partition.setdefault(message.message_id().partition(), []).append(message.data().decode())
            consumer.acknowledge(message)
        assert sorted(sum(by_partition.values(), [])) == sent
        assert all(texts == sorted(texts) for texts in by_partition.values())
        counts = {partition: len(texts) for partition, texts in sorted(by_partition.items())}
        assert set(counts) == {0, 1, 2, 3}, counts
        print(f"batching {batching}: 400 sent and received, by partition {counts}")


def unload(client, batching):
    """The topic moves while messages are on the way: none is lost, and they stay in order."""
    sent, received = words(3000), []
    consumer = client.subscribe(f"unload-{batching}", "s", initial_position=EARLIEST)

    def receive():
        while len(set(received)) < len(sent):
            message = consumer.receive(PATIENCE)
            received.append(message.data().decode())
            consumer.acknowledge(message)

    receiving = threading.Thread(target=receive)
    receiving.start()
    failures = []
    producer = client.create_producer(f"unload-{batching}", batching_enabled=batching, block_if_queue_full=True)
    for text in sent:
        producer.send_async(text.encode(), lambda result, _: result == pulsar.Result.Ok or failures.append(result))
        time.sleep(0.001)
    producer.flush()
    receiving.join(60)
    assert not failures, failures
    # What was sent again or delivered again may be there twice; its first arrival is in order.
    assert list(dict.fromkeys(received)) == sent, "lost, or out of order"
    again = len(received) - len(sent)
    print(f"batching {batching}: 3000 sent and received in order, {again} of them more than once")


def shared(client):
    """Two consumers share, and what one refuses comes again."""
    options = {"consumer_type": pulsar.ConsumerType.Shared, "negative_ack_redelivery_delay_ms": 100}
    pair = [client.subscribe("shared", "s", receiver_queue_size=10, **options) for _ in range(2)]
    produce(client, "shared", words(10))
    texts, refused, again = [], set(), 0
    while len(texts) < 10:
        for consumer in pair:
            try:
                message = consumer.receive(200)
            except pulsar.Timeout:
                continue
            text = message.data().decode()
            if text not in refused and len(refused) < 3:
                refused.add(text)
                consumer.negative_acknowledge(message)
                continue
            again += message.redelivery_count() > 0
            texts.append(text)
            consumer.acknowledge(message)
    assert sorted(texts) == words(10) and again == 3, (texts, again)
    print("shared: 10 received by two, 3 refused at first came again and said so")


def reader(client):
    """Readers, the last message, seeking, properties, compression, a pattern of topics."""
    produce(client, "read-1", words(50), batching_enabled=True, compression_type=pulsar.CompressionType.LZ4)
    produce(client, "read-1", words(50, "n"))
    at = client.create_reader("read-1", pulsar.MessageId.earliest)
    for _ in range(2):
        texts = []
        while at.has_message_available():
            texts.append(at.read_next(PATIENCE).data().decode())
        assert texts == words(50) + words(50, "n"), texts
        at.seek(pulsar.MessageId.earliest)
    print("reader: 100 read twice, up to the last message, half of them compressed")
    producer = client.create_producer("read-2", schema=pulsar.schema.StringSchema())
    producer.send("hello", properties={"a": "b"}, partition_key="k")
    pattern = re.compile("persistent://public/default/read-.*")
    consumer = client.subscribe(pattern, "s", initial_position=EARLIEST)
    messages = [consumer.receive(PATIENCE) for _ in range(101)]
    hello = [message for message in messages if message.topic_name().endswith("read-2")]
    assert [(m.data(), m.properties(), m.partition_key()) for m in hello] == [(b"hello", {"a": "b"}, "k")]
    print("pattern: 101 received from both topics, property and key too")


def token(url, log):
    """Who does not bring the token stays outside."""
    for authentication in (None, pulsar.AuthenticationToken("guess")):
        client = connect(url, log, authentication, seconds=1)
        try:
            client.create_producer("token")
            raise AssertionError("let in")
        except (pulsar.AuthenticationError, pulsar.ConnectError, pulsar.Timeout):
            # Seen with 3.13.0: it disconnects, tries again, and ends with Timeout, not with AuthenticationError.
            pass
        client.close()
    client = connect(url, log, pulsar.AuthenticationToken("secret"))
    produce(client, "token", words(1))
    client.close()
    print("token: let in with it, refused without it and with another")


def connect(url, log, authentication=None, seconds=20, **options):
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, log)
    return pulsar.Client(url, authentication, logger=logger, operation_timeout_seconds=seconds, **options)


def main(scenario, url, *files):
    *roots, log = files
    if scenario == "token":
        return token(url, log)
    secure = {"tls_trust_certs_file_path": roots[0], "tls_validate_hostname": True} if roots else {}
    client = connect(url, log, **secure)
    if scenario.startswith("unload"):
        unload(client, scenario == "unload-True")
    else:
        {"acks": acks, "partitioned": partitioned, "shared": shared, "reader": reader}[scenario](client)
    client.close()


main(*sys.argv[1:])
