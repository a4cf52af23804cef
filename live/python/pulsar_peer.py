"""Produces or consumes numbered messages with the published Pulsar client.

    pulsar_peer.py produce URL TOPIC COUNT SIZE OPTION LOG
    pulsar_peer.py consume URL TOPIC COUNT TYPE LOG

The payload is the number, filled up with dots to SIZE bytes. OPTION is plain, batching or chunking; TYPE is that of the subscription,
"python": Exclusive, Shared, Failover or KeyShared. "subscribed" is printed before the first message is awaited. Ends with 0 if all was as
it should be: `consume` if it got each number once, in order. What the client itself logs goes to the file LOG.
"""

import sys

import pulsar


def produce(client, topic, count, size, option):
    failures = []
    options = {"batching_enabled": option == "batching", "chunking_enabled": option == "chunking"}
    producer = client.create_producer(topic, block_if_queue_full=True, **options)
    for number in range(int(count)):
        text, properties = str(number).ljust(int(size), "."), {"parity": str(number % 2)}
        done = lambda result, _: result == pulsar.Result.Ok or failures.append(result)
        producer.send_async(text.encode(), done, properties=properties, partition_key=f"key-{number % 7}")
    producer.flush()
    assert not failures, failures
    producer.close()


def consume(client, topic, count, kind):
    kind = getattr(pulsar.ConsumerType, kind)
    consumer = client.subscribe(topic, "python", kind, initial_position=pulsar.InitialPosition.Earliest)
    print("subscribed")
    for number in range(int(count)):
        message = consumer.receive(20_000)
        got = (message.data().decode().rstrip("."), message.partition_key(), message.properties())
        assert got == (str(number), f"key-{number % 7}", {"parity": str(number % 2)}), (number, got)
        consumer.acknowledge(message)
    consumer.close()


def main(what, url, *arguments):
    *arguments, log = arguments
    client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, log), operation_timeout_seconds=20)
    {"produce": produce, "consume": consume}[what](client, *arguments)
    client.close()


main(*sys.argv[1:])
