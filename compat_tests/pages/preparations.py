"""The state before some sections of the pages, as commands; all others begin in an empty directory."""

from typing import Final

ANSWERS: Final = "until kafkapy brokers >/dev/null 2>&1; do sleep 0.1; done\n"
BROKER: Final = f"kafkapy start --data ./data &\n{ANSWERS}"
STOP: Final = "kill $!; wait $!\n"
FLIGHTS: Final = "kafkapy topics create flights\nseq 200 | kafkapy produce flights\n"
ZOOKEEPER: Final = r"""
printf 'dataDir=zookeeper\nclientPort=2181\nadmin.enableServer=false\n' > zookeeper.properties
zookeeper-server-start.sh zookeeper.properties > zookeeper.log 2>&1 &
disown %zookeeper-server-start.sh
until (echo > /dev/tcp/127.0.0.1/2181) 2>/dev/null; do sleep 0.2; done
"""
SECURED_ZOOKEEPER: Final = r"""
kafkapy certificates create ./tls --client kafka
cat > zookeeper.properties <<'END'
dataDir=zookeeper
secureClientPort=2182
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=tls/broker.pem
ssl.trustStore.location=tls/ca.pem
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
sessionRequireClientSASLAuth=true
admin.enableServer=false
END
cat > zookeeper.jaas <<'END'
Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="kafka-secret"; };
END
export JDK_JAVA_OPTIONS=-Djava.security.auth.login.config=zookeeper.jaas
zookeeper-server-start.sh zookeeper.properties > zookeeper.log 2>&1 &
disown %zookeeper-server-start.sh
until (echo > /dev/tcp/127.0.0.1/2182) 2>/dev/null; do sleep 0.2; done
"""
EAST_AND_WEST: Final = """
kafkapy start --data ./east listeners=PLAINTEXT://east:9092 &
kafkapy start --data ./west listeners=PLAINTEXT://west:9092 &
export KAFKAPY_BOOTSTRAP=east:9092
until kafkapy brokers && kafkapy brokers --bootstrap west:9092; do sleep 0.1; done >/dev/null 2>&1
for topic in orders payments.card flights; do echo one | kafkapy produce $topic; done
kafkapy groups reset-offsets billing --topic orders --to latest
kafkapy groups reset-offsets reports-1 --topic flights --to latest
"""
OPEN: Final = """
python - <<'END'
from kafkapy.clients import transactions
from kafkapy.clients.cluster import ClusterClient
from kafkapy.protocol.messages.add_partitions_to_txn import *
with ClusterClient() as client:
    producer = transactions.abort(client, "etl-1", 60_000)
    request = AddPartitionsToTxnRequest([], "etl-1", *producer, [AddPartitionsToTxnTopic("orders", [0])])
    client.transaction_coordinator("etl-1").call(request, AddPartitionsToTxnResponse, at_most=3)
END
"""
"""A transaction of etl-1."""
HANGING: Final = """
python - <<'END'
from kafkapy.clients import configs
from kafkapy.clients.cluster import ClusterClient
from kafkapy.protocol.messages.produce import *
from kafkapy.records.record import Record, encode_batch
fields = dict(producer_id=77_000, producer_epoch=0, base_sequence=0, is_transactional=True)
batch = encode_batch([Record(b"k", b"late", 0)], **fields)
with ClusterClient() as client:
    configs.alter(client, "broker", "", {"transaction.partition.verification.enable": "false"})
    data = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, memoryview(batch))])]
    client.any_broker().call(ProduceRequest("gone", -1, 10_000, data), ProduceResponse, at_most=11)
END
"""
"""A transaction that no coordinator knows."""
CLUSTER_ON_ZOOKEEPER: Final = f"""{ZOOKEEPER}
kafkapy start --data ./data zookeeper.connect=127.0.0.1:2181/kafka offsets.topic.replication.factor=1 &
{ANSWERS}
kafkapy topics create flights
echo EWR-IAH | kafkapy produce flights
"""
ORIGINAL: Final = "docs/original_clients.md"
OPERATIONS: Final = "docs/operations.md"
BEFORE: Final[dict[tuple[str, str], str]] = {
    ("docs/cluster.md", "Several brokers on a ZooKeeper"): ZOOKEEPER,
    ("docs/security.md", "Quotas"): BROKER,
    ("docs/security.md", "Towards a ZooKeeper"): SECURED_ZOOKEEPER,
    ("docs/mirror.md", "Copying topics to another cluster"): EAST_AND_WEST,
    (ORIGINAL, "The consumer connector"): CLUSTER_ON_ZOOKEEPER,
    (ORIGINAL, "The producer"): CLUSTER_ON_ZOOKEEPER,
    (ORIGINAL, "At most once, at least once, exactly once"): CLUSTER_ON_ZOOKEEPER,
    (OPERATIONS, "The cluster's metadata"): f"{BROKER}{FLIGHTS}{STOP}rm data/kafkapy-metadata.*\n",
    (OPERATIONS, "To Apache Kafka and back"): f"{BROKER}{FLIGHTS}{STOP}{ZOOKEEPER}",
    (OPERATIONS, "Looking into the files"): (
        f"{BROKER}{FLIGHTS}kafkapy groups reset-offsets billing --topic flights --to earliest\n{STOP}"
    ),
    (OPERATIONS, "Damage in the coordinators' topics"): (
        f"{BROKER}{FLIGHTS}kafkapy groups reset-offsets billing --topic flights --to earliest\n{STOP}"
    ),
    (OPERATIONS, "Transactions"): (
        f"{BROKER}kafkapy topics create orders\nseq 1500 | kafkapy produce orders\n{OPEN}{HANGING}"
    ),
}
"""By page and heading."""
