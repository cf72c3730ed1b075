"""The purpose of each configuration key, in one to three sentences: for DescribeConfigs and ``kafkapy configs
describe``.

The texts are kafkapy's own. The module is imported when a client requests them.
"""

from typing import Final

from kafkapy.config.broker_config import REFUSED_KEYS
from kafkapy.config.broker_keys import base_name
from kafkapy.config.consumer_group_keys import CONSUMER_GROUP_DOCUMENTATION
from kafkapy.config.group_keys import GROUP_DOCUMENTATION
from kafkapy.config.java_classes import KNOWN_CLASSES
from kafkapy.config.oauth_keys import OAUTH_DOCUMENTATION
from kafkapy.config.own_keys import OWN_DOCUMENTATION
from kafkapy.config.transaction_keys import TRANSACTION_DOCUMENTATION

_NOT_USED: Final = "kafkapy does not use this key."
_REFUSED: Final = "kafkapy does not start while this key is set."
_ONLY_KAFKAS: Final = "kafkapy has only Apache Kafka's own, and refuses others."

_BROKER: Final[dict[str, str]] = {
    **OWN_DOCUMENTATION,
    **OAUTH_DOCUMENTATION,
    **CONSUMER_GROUP_DOCUMENTATION,
    **TRANSACTION_DOCUMENTATION,
    # ZooKeeper
    "zookeeper.connect": "Addresses of the ZooKeeper servers that keep the cluster's metadata, as host:port separated by commas, with an optional path at the end. Without it kafkapy keeps the metadata in its own data directory.",
    "zookeeper.session.timeout.ms": "How long ZooKeeper keeps the broker registered after the broker's last message, in milliseconds.",
    "zookeeper.connection.timeout.ms": "How long the broker waits for its first connection to ZooKeeper, in milliseconds. Without a value the session timeout is used.",
    "zookeeper.sync.time.ms": "How far a ZooKeeper follower may be behind its leader, in milliseconds.",
    "zookeeper.set.acl": "Whether the nodes that the broker writes to ZooKeeper get access control lists.",
    "zookeeper.max.in.flight.requests": "How many requests the broker may have sent to ZooKeeper without a response to any of them.",
    "zookeeper.ssl.client.enable": "Whether the connection to ZooKeeper uses TLS.",
    "zookeeper.clientCnxnSocket": "Java class of the socket to ZooKeeper; TLS needs the one that is based on Netty.",
    "zookeeper.ssl.keystore.location": "File with the broker's private key and certificate for TLS to ZooKeeper.",
    "zookeeper.ssl.keystore.password": "Password of the key store for TLS to ZooKeeper.",
    "zookeeper.ssl.keystore.type": "Format of the key store for TLS to ZooKeeper, such as PKCS12. Without a value the ending of the file name decides.",
    "zookeeper.ssl.truststore.location": "File with the certificates that the broker trusts when it connects to ZooKeeper with TLS.",
    "zookeeper.ssl.truststore.password": "Password of the trust store for TLS to ZooKeeper.",
    "zookeeper.ssl.truststore.type": "Format of the trust store for TLS to ZooKeeper, such as PKCS12. Without a value the ending of the file name decides.",
    "zookeeper.ssl.protocol": "Version of TLS with which the negotiation with ZooKeeper begins.",
    "zookeeper.ssl.enabled.protocols": "Versions of TLS that the broker accepts on its connection to ZooKeeper.",
    "zookeeper.ssl.cipher.suites": "Cipher suites that the broker accepts on its TLS connection to ZooKeeper; without a value those of the Java runtime.",
    "zookeeper.ssl.endpoint.identification.algorithm": "How the host name of a ZooKeeper server is checked against its certificate; an empty value turns the check off.",
    "zookeeper.ssl.crl.enable": "Whether the certificates of ZooKeeper servers are looked up in revocation lists.",
    "zookeeper.ssl.ocsp.enable": "Whether the certificates of ZooKeeper servers are checked with the Online Certificate Status Protocol.",
    # broker identity
    "broker.id.generation.enable": "Whether a broker whose broker.id is -1 gets a generated id. Generated ids are above reserved.broker.max.id.",
    "reserved.broker.max.id": "Largest id that broker.id may name while ids are generated; generated ids begin after it.",
    "broker.id": "Number of this broker, unique in its cluster. With -1 an id is generated at the first start and kept in the data directory.",
    # threads and requests
    "message.max.bytes": "Largest record batch that a topic takes, in bytes, after compression and with the batch's header. A topic overrides it with max.message.bytes.",
    "num.network.threads": "Number of threads that read requests from sockets and write responses. kafkapy serves all connections in one thread, so the value changes nothing.",
    "num.io.threads": "Number of threads that process requests. kafkapy processes them in one thread, so the value changes nothing.",
    "num.replica.alter.log.dirs.threads": "Number of threads that copy replicas from one log directory to another; without a value one for each directory.",
    "background.threads": "Number of threads for periodic work such as removing old segments. kafkapy does this work on its event loop, so the value changes nothing.",
    "queued.max.requests": "How many requests may wait for a processing thread before the broker stops to read from sockets.",
    "queued.max.request.bytes": "How many bytes of requests may be in memory at once before the broker stops to read further ones. With -1 kafkapy uses a limit of its own.",
    "request.timeout.ms": "How long this broker waits for the response to a request that it sent to another broker, in milliseconds.",
    "socket.connection.setup.timeout.ms": "How long the broker waits for a connection to another broker before the attempt fails, in milliseconds.",
    "socket.connection.setup.timeout.max.ms": "Upper bound of the time that a repeated attempt to connect to another broker may take, in milliseconds.",
    # listeners and sockets
    "authorizer.class.name": "Java class that decides which principal may do what; empty means that every client may do everything.",
    "port": "Port to listen on where listeners is not set. It is deprecated: use listeners.",
    "host.name": "Address to bind where listeners is not set; empty means the default address. It is deprecated: use listeners.",
    "listeners": "Addresses to listen on, as NAME://host:port separated by commas. An empty host means all interfaces, port 0 a free port; kafkapy listens on the loopback interface unless this key names another.",
    "advertised.host.name": "Host name that clients are told to connect to where advertised.listeners is not set. It is deprecated: use advertised.listeners.",
    "advertised.port": "Port that clients are told to connect to where advertised.listeners is not set. It is deprecated: use advertised.listeners.",
    "advertised.listeners": "Addresses that clients and other brokers are told to connect to, as NAME://host:port. Without it they are told the addresses of listeners.",
    "listener.security.protocol.map": "Security protocol of each listener name, as NAME:PROTOCOL separated by commas.",
    "control.plane.listener.name": "Listener to which the controller of a cluster sends its requests. Without a value they go to the listener of the brokers.",
    "socket.send.buffer.bytes": "Size of a socket's send buffer in the operating system, in bytes; -1 leaves the system's default.",
    "socket.receive.buffer.bytes": "Size of a socket's receive buffer in the operating system, in bytes; -1 leaves the system's default.",
    "socket.request.max.bytes": "Largest request that is accepted, in bytes. A connection that announces a larger one is closed.",
    "max.connections.per.ip": "How many connections one address may have open at once; further ones are closed. 0 is allowed only with max.connections.per.ip.overrides.",
    "max.connections.per.ip.overrides": "Limits for single addresses in place of max.connections.per.ip, as host:number separated by commas.",
    "max.connections": "How many connections may be open at once, over all listeners or, with a listener's prefix, on that listener.",
    "max.connection.creation.rate": "How many connections a second are accepted, over all listeners or, with a listener's prefix, on that listener.",
    "connections.max.idle.ms": "After how many milliseconds without traffic a connection is closed.",
    "connection.failed.authentication.delay.ms": "How long the broker waits before it closes a connection that failed to authenticate, in milliseconds. It slows down attempts to guess passwords.",
    "broker.rack": "Name of the rack or zone that the broker stands in. Replicas of a partition are spread over racks.",
    # logs
    "num.partitions": "Number of partitions of a topic that is created without a number of its own.",
    "log.dir": "Data directory where log.dirs is not set.",
    "log.dirs": "Data directories, separated by commas. A new partition goes to the directory with the fewest partitions. Without this key and log.dir kafkapy uses a directory of the user.",
    "log.segment.bytes": "Size at which a log starts a new segment file, in bytes. A topic overrides it with segment.bytes.",
    "log.roll.ms": "Age at which a log starts a new segment even if the current one is not full, in milliseconds. Without a value log.roll.hours is used.",
    "log.roll.hours": "Age at which a log starts a new segment, in hours; log.roll.ms has precedence.",
    "log.roll.jitter.ms": "Largest random time by which a log rolls earlier than log.roll.ms says, in milliseconds, so that not all logs roll at once. Without a value log.roll.jitter.hours is used.",
    "log.roll.jitter.hours": "Largest random time by which a log rolls earlier, in hours; log.roll.jitter.ms has precedence.",
    "log.retention.ms": "How long records are kept before their segment is removed, in milliseconds; -1 means for ever. Without a value log.retention.minutes is used.",
    "log.retention.minutes": "How long records are kept, in minutes; log.retention.ms has precedence. Without a value log.retention.hours is used.",
    "log.retention.hours": "How long records are kept, in hours; log.retention.ms and log.retention.minutes have precedence.",
    "log.retention.bytes": "Size that a partition's log may reach before its oldest segments are removed, in bytes; -1 means without limit. A topic overrides it with retention.bytes.",
    "log.retention.check.interval.ms": "How often the broker looks for segments that can be removed, in milliseconds.",
    "log.cleanup.policy": "What happens to old segments: delete removes them by age and size, compact keeps the newest record of each key. Both may be given together.",
    "log.cleaner.threads": "How many compactions may run at the same time. With 0 nothing is compacted.",
    "log.cleaner.io.max.bytes.per.second": "How many bytes a second all compactions together may read and write.",
    "log.cleaner.dedupe.buffer.size": "Memory for the table of keys of all compactions together, in bytes. A larger table lets one run compact more of a log.",
    "log.cleaner.io.buffer.size": "Memory for reading and writing of all compactions together, in bytes.",
    "log.cleaner.io.buffer.load.factor": "How full the table of keys may become, as a fraction of log.cleaner.dedupe.buffer.size. More keys fit with a higher value, at the price of more collisions.",
    "log.cleaner.backoff.ms": "How long the cleaner waits when there is nothing to compact, in milliseconds.",
    "log.cleaner.min.cleanable.ratio": "Part of a log that has to be uncompacted before it is compacted, from 0 to 1. A topic overrides it with min.cleanable.dirty.ratio.",
    "log.cleaner.enable": "Whether logs are compacted at all. The topic of the consumer groups' offsets needs it.",
    "log.cleaner.delete.retention.ms": "How long a deletion marker stays in a compacted log, in milliseconds. A consumer that reads from the beginning within this time sees the deletion.",
    "log.cleaner.min.compaction.lag.ms": "How long a record stays uncompacted at least, in milliseconds. A topic overrides it with min.compaction.lag.ms.",
    "log.cleaner.max.compaction.lag.ms": "How long a record may stay uncompacted at most, in milliseconds. A topic overrides it with max.compaction.lag.ms.",
    "log.index.size.max.bytes": "Largest size of an offset or time index, in bytes. A full index starts a new segment.",
    "log.index.interval.bytes": "How many bytes of records lie between two entries of an offset index. Smaller values make lookups more exact and indexes larger.",
    "log.flush.interval.messages": "After how many records a log is flushed to the disk with fsync. The default leaves this to the operating system.",
    "log.segment.delete.delay.ms": "How long a removed segment's files stay on the disk under another name, in milliseconds. Fetches that began before may end meanwhile.",
    "log.flush.scheduler.interval.ms": "How often the broker looks for logs whose log.flush.interval.ms is over, in milliseconds.",
    "log.flush.interval.ms": "After how many milliseconds a record is flushed to the disk with fsync at the latest. Without a value log.flush.scheduler.interval.ms is used.",
    "log.flush.offset.checkpoint.interval.ms": "How often the broker writes down up to which offset each log is on the disk, in milliseconds. A start after a crash checks the records after these offsets.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often the broker writes down where each log starts, in milliseconds.",
    "log.preallocate": "Whether a new segment's file takes its full size on the disk at once.",
    "num.recovery.threads.per.data.dir": "How many logs of a data directory are checked at the same time after a crash. kafkapy uses processes for it.",
    "auto.create.topics.enable": "Whether a topic that does not exist is created when a producer or consumer asks for its metadata.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be accepted. With fewer the producer gets an error.",
    "log.message.format.version": "Release whose record format the logs have. Records in another format are converted when they are written.",
    "log.message.timestamp.type": "Which time a record carries: CreateTime is the producer's, LogAppendTime that of the broker at the append.",
    "log.message.timestamp.difference.max.ms": "By how many milliseconds a record's timestamp may differ from the broker's clock. It is not checked where the timestamp type is LogAppendTime.",
    "create.topic.policy.class.name": "Java class that may refuse the creation of a topic.",
    "alter.config.policy.class.name": "Java class that may refuse a change of the configuration.",
    "log.message.downconversion.enable": "Whether records are converted for consumers that know only older formats. Without it these consumers get an error.",
    # replication
    "controller.socket.timeout.ms": "How long the controller waits for a broker's response on a socket, in milliseconds.",
    "default.replication.factor": "Number of replicas of a topic that is created without a number of its own, as automatically created topics are.",
    "replica.lag.time.max.ms": "After how many milliseconds a follower that has not caught up with its leader counts as out of sync.",
    "replica.socket.timeout.ms": "How long a follower waits for its leader's response, in milliseconds. It must be at least replica.fetch.wait.max.ms.",
    "replica.socket.receive.buffer.bytes": "Size of the receive buffer of a follower's socket to its leader, in bytes.",
    "replica.fetch.max.bytes": "How many bytes a follower asks for per partition. A larger first batch is sent nevertheless.",
    "replica.fetch.wait.max.ms": "How long a leader may hold a follower's fetch while there is nothing new, in milliseconds. It should stay below replica.lag.time.max.ms.",
    "replica.fetch.backoff.ms": "How long a follower waits before it fetches a partition again after an error, in milliseconds.",
    "replica.fetch.min.bytes": "How many bytes a follower's fetch waits for, until replica.fetch.wait.max.ms is over.",
    "replica.fetch.response.max.bytes": "How many bytes a follower asks for in one fetch over all partitions.",
    "num.replica.fetchers": "Number of connections over which a follower fetches from each leader.",
    "replica.high.watermark.checkpoint.interval.ms": "How often the broker writes down the high watermark of each partition, in milliseconds.",
    "fetch.purgatory.purge.interval.requests": "After how many finished fetch requests their entries are removed from the list of waiting ones.",
    "producer.purgatory.purge.interval.requests": "After how many finished produce requests their entries are removed from the list of waiting ones.",
    "delete.records.purgatory.purge.interval.requests": "After how many finished DeleteRecords requests their entries are removed from the list of waiting ones.",
    "auto.leader.rebalance.enable": "Whether the controller gives leadership back to the preferred replicas by itself.",
    "leader.imbalance.per.broker.percentage": "Percentage of a broker's partitions that may be led by other replicas than the preferred ones before the controller gives leadership back.",
    "leader.imbalance.check.interval.seconds": "How often the controller looks whether leaders are unevenly distributed, in seconds.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may become leader when no other is left. It makes the partition available at the price of lost records.",
    "security.inter.broker.protocol": "Security protocol between brokers where inter.broker.listener.name is not set.",
    "inter.broker.protocol.version": "Release whose protocol the brokers speak among themselves. It also decides the format of some stored records.",
    "inter.broker.listener.name": "Name of the listener over which brokers talk to each other. Without a value the one with security.inter.broker.protocol is used.",
    "replica.selector.class": "Java class that chooses the replica which a consumer reads from; without a value it is the leader. kafkapy has org.apache.kafka.common.replica.RackAwareReplicaSelector, which prefers one in the consumer's rack.",
    "controlled.shutdown.max.retries": "How often a broker that is stopping asks the controller again to move its leaderships away.",
    "controlled.shutdown.retry.backoff.ms": "How long a broker that is stopping waits before it asks the controller again, in milliseconds.",
    "controlled.shutdown.enable": "Whether a broker that is stopping has its leaderships moved to other brokers first.",
    # groups and their offsets
    "group.min.session.timeout.ms": "Shortest session timeout that a group member may ask for, in milliseconds.",
    "group.max.session.timeout.ms": "Longest session timeout that a group member may ask for, in milliseconds.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for further members before its first rebalance, in milliseconds.",
    "group.max.size": "How many members a consumer group may have; further ones are refused. kafkapy takes 5,000 for the default.",
    "offset.metadata.max.bytes": "Largest text that may accompany a committed offset, in bytes.",
    "offsets.load.buffer.size": "How many bytes of the offsets topic are read at once when a broker takes over groups.",
    "offsets.topic.replication.factor": "Number of replicas of the topic __consumer_offsets. Its creation fails until there are as many brokers.",
    "offsets.topic.num.partitions": "Number of partitions of the topic __consumer_offsets. It must not change once groups exist.",
    "offsets.topic.segment.bytes": "Segment size of the topic __consumer_offsets, in bytes. Smaller segments are compacted sooner.",
    "offsets.topic.compression.codec": "Compression of the records in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.retention.minutes": "How long the offsets of a group without members, or of a topic that a group no longer reads, are kept, in minutes.",
    "offsets.retention.check.interval.ms": "How often the broker looks for committed offsets that have expired, in milliseconds.",
    "offsets.commit.timeout.ms": "How long a commit of offsets waits for the replicas of __consumer_offsets, in milliseconds.",
    "offsets.commit.required.acks": "Acknowledgements that a commit of offsets waits for; -1 means all replicas in sync.",
    # topics and compression
    "delete.topic.enable": "Whether topics can be deleted.",
    "compression.type": "Compression of the records on the disk: a codec, uncompressed, or producer for what the producer chose.",
    # transactions
    "transactional.id.expiration.ms": "How long the coordinator remembers a transactional id that is not used, in milliseconds. Producer ids expire with it.",
    "transaction.max.timeout.ms": "Longest transaction timeout that a producer may ask for, in milliseconds.",
    "transaction.state.log.min.isr": "How many replicas of __transaction_state must be in sync for the coordinator to write.",
    "transaction.state.log.load.buffer.size": "How many bytes of __transaction_state are read at once when a broker takes over transactional ids.",
    "transaction.state.log.replication.factor": "Number of replicas of the topic __transaction_state. Its creation fails until there are as many brokers.",
    "transaction.state.log.num.partitions": "Number of partitions of the topic __transaction_state. It must not change once transactional ids exist.",
    "transaction.state.log.segment.bytes": "Segment size of the topic __transaction_state, in bytes.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often the coordinator looks for transactions whose timeout is over, in milliseconds, to abort them.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often the coordinator looks for transactional ids that have expired, in milliseconds.",
    # fetch
    "max.incremental.fetch.session.cache.slots": "How many incremental fetch sessions the broker keeps. 0 turns them off: each fetch names all its partitions then.",
    "fetch.max.bytes": "Largest response to a fetch that the broker makes, in bytes, whatever the consumer asks for. A larger first batch is sent nevertheless.",
    # metrics
    "metrics.num.samples": "Number of samples from which Kafka computes a metric.",
    "metrics.sample.window.ms": "Time over which Kafka collects one sample of a metric, in milliseconds.",
    "metric.reporters": "Java classes that get the metrics of the newer metrics library.",
    "metrics.recording.level": "Which metrics are recorded: INFO the usual ones, DEBUG more of them.",
    "kafka.metrics.reporters": "Java classes that get the metrics of the older metrics library.",
    "kafka.metrics.polling.interval.secs": "How often the reporters of kafka.metrics.reporters ask for metrics, in seconds.",
    # quotas
    "quota.producer.default": "How many bytes a second a producer without a quota of its own may write. It is deprecated in favour of dynamic quotas.",
    "quota.consumer.default": "How many bytes a second a consumer without a quota of its own may read. It is deprecated in favour of dynamic quotas.",
    "quota.window.num": "Number of samples from which the rate of a client is computed.",
    "replication.quota.window.num": "Number of samples from which the rate of throttled replication is computed.",
    "alter.log.dirs.replication.quota.window.num": "Number of samples from which the rate of copies between log directories is computed.",
    "controller.quota.window.num": "Number of samples from which the rate of changes to topics is computed.",
    "quota.window.size.seconds": "Length of one sample of a client's rate, in seconds.",
    "replication.quota.window.size.seconds": "Length of one sample of the rate of throttled replication, in seconds.",
    "alter.log.dirs.replication.quota.window.size.seconds": "Length of one sample of the rate of copies between log directories, in seconds.",
    "controller.quota.window.size.seconds": "Length of one sample of the rate of changes to topics, in seconds.",
    "client.quota.callback.class": "Java class that decides which quota a client has.",
    # security
    "connections.max.reauth.ms": "After how many milliseconds a client with SASL must authenticate again on the same connection; 0 means never.",
    "security.providers": "Java classes that add security algorithms, in the order in which they are tried.",
    "principal.builder.class": "Java class that derives a principal from how a client has authenticated.",
    # TLS
    "ssl.protocol": "Version of TLS with which a negotiation begins.",
    "ssl.provider": "Name of the Java security provider for TLS; without a value that of the Java runtime.",
    "ssl.enabled.protocols": "Versions of TLS that connections may use.",
    "ssl.keystore.type": "Format of the key store: JKS, PKCS12 or PEM.",
    "ssl.keystore.location": "File with the broker's private key and certificate.",
    "ssl.keystore.password": "Password of the key store file; PEM files need none.",
    "ssl.key.password": "Password of the private key in the key store or in ssl.keystore.key.",
    "ssl.keystore.key": "The broker's private key itself, as PEM text in place of a key store file.",
    "ssl.keystore.certificate.chain": "The broker's certificate and those that signed it, as PEM text in place of a key store file.",
    "ssl.truststore.type": "Format of the trust store: JKS, PKCS12 or PEM.",
    "ssl.truststore.location": "File with the certificates that the broker trusts.",
    "ssl.truststore.password": "Password of the trust store file. Without it the file is read and not checked for changes.",
    "ssl.truststore.certificates": "The certificates that the broker trusts, as PEM text in place of a trust store file.",
    "ssl.keymanager.algorithm": "Algorithm of the Java class that chooses the broker's key.",
    "ssl.trustmanager.algorithm": "Algorithm of the Java class that checks the certificates of others.",
    "ssl.endpoint.identification.algorithm": "How the host name of a server is checked against its certificate; an empty value turns the check off.",
    "ssl.secure.random.implementation": "Name of the Java generator of random numbers for TLS.",
    "ssl.client.auth": "Whether clients must show a certificate: required, requested or none.",
    "ssl.cipher.suites": "Cipher suites that connections may use; an empty list means those of the Java runtime.",
    "ssl.principal.mapping.rules": "Rules that turn the distinguished name of a client's certificate into a principal; DEFAULT takes the whole name.",
    "ssl.engine.factory.class": "Java class that makes the TLS engines in place of Kafka's own.",
    # SASL
    "sasl.mechanism.inter.broker.protocol": "SASL mechanism with which brokers authenticate to each other.",
    "sasl.jaas.config": "Login module and its options for SASL, in the form of a JAAS file. It is set per listener and mechanism.",
    "sasl.enabled.mechanisms": "SASL mechanisms that clients may use.",
    "sasl.server.callback.handler.class": "Java class that answers the callbacks of a SASL mechanism on the server's side. kafkapy uses it for OAUTHBEARER alone: it chooses how tokens are checked.",
    "sasl.client.callback.handler.class": "Java class that answers the callbacks of a SASL mechanism when the broker is the client.",
    "sasl.login.class": "Java class that performs the login for SASL.",
    "sasl.login.callback.handler.class": "Java class that answers the callbacks of the login for SASL. kafkapy uses it for OAUTHBEARER alone.",
    "sasl.kerberos.service.name": "Name of the Kerberos principal under which the brokers run.",
    "sasl.kerberos.kinit.cmd": "Path of the command that renews Kerberos tickets.",
    "sasl.kerberos.ticket.renew.window.factor": "Part of a Kerberos ticket's lifetime after which it is renewed, from 0 to 1.",
    "sasl.kerberos.ticket.renew.jitter": "Random part of the time until a Kerberos ticket is renewed, as a fraction.",
    "sasl.kerberos.min.time.before.relogin": "How long the broker waits at least between two Kerberos logins, in milliseconds.",
    "sasl.kerberos.principal.to.local.rules": "Rules that turn a Kerberos principal into a short name; the first one that matches is used.",
    "sasl.login.refresh.window.factor": "Part of a credential's lifetime after which it is refreshed, from 0.5 to 1.",
    "sasl.login.refresh.window.jitter": "Random part of the time until a credential is refreshed, as a fraction of its lifetime.",
    "sasl.login.refresh.min.period.seconds": "How long the broker waits at least before it refreshes a credential, in seconds.",
    "sasl.login.refresh.buffer.seconds": "How long before its end a credential is refreshed at the latest, in seconds.",
    # delegation tokens and stored passwords
    "delegation.token.master.key": "Secret with which delegation tokens are signed, the same on all brokers. Without it there are no delegation tokens.",
    "delegation.token.max.lifetime.ms": "How long a delegation token may exist in all, in milliseconds, however often it is renewed.",
    "delegation.token.expiry.time.ms": "How long a delegation token is valid before it must be renewed, in milliseconds.",
    "delegation.token.expiry.check.interval.ms": "How often expired delegation tokens are removed, in milliseconds.",
    "password.encoder.secret": "Secret with which passwords in the dynamic configuration are encrypted.",
    "password.encoder.old.secret": "Earlier value of password.encoder.secret, to decrypt passwords once and encrypt them with the new one.",
    "password.encoder.keyfactory.algorithm": "Algorithm that derives the key for stored passwords; without a value the best one of the Java runtime.",
    "password.encoder.cipher.algorithm": "Cipher that encrypts stored passwords.",
    "password.encoder.key.length": "Length of the key for stored passwords, in bits.",
    "password.encoder.iterations": "How often the function that derives the key for stored passwords is repeated.",
    # throttles, dynamic only
    "leader.replication.throttled.rate": "How many bytes a second a leader may send to followers for throttled replicas. It is set for one broker; for all of them at once it has no effect.",
    "follower.replication.throttled.rate": "How many bytes a second a follower may fetch for throttled replicas. It is set for one broker; for all of them at once it has no effect.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "How many bytes a second may be copied between the log directories of a broker.",
}  # fmt: skip

_TOPIC: Final[dict[str, str]] = {
    "segment.bytes": "Size at which the topic's logs start a new segment file, in bytes.",
    "segment.ms": "Age at which a log of the topic starts a new segment even if the current one is not full, in milliseconds.",
    "segment.jitter.ms": "Largest random time by which a log of the topic rolls earlier than segment.ms says, in milliseconds.",
    "segment.index.bytes": "Largest size of an offset or time index of the topic, in bytes. A full index starts a new segment.",
    "flush.messages": "After how many records a log of the topic is flushed to the disk with fsync. The default leaves this to the operating system.",
    "flush.ms": "After how many milliseconds a record of the topic is flushed to the disk with fsync at the latest.",
    "retention.bytes": "Size that each partition of the topic may reach before its oldest segments are removed, in bytes; -1 means without limit.",
    "retention.ms": "How long the topic's records are kept before their segment is removed, in milliseconds; -1 means for ever.",
    "max.message.bytes": "Largest record batch that the topic takes, in bytes, after compression and with the batch's header.",
    "index.interval.bytes": "How many bytes of records lie between two entries of an offset index of the topic.",
    "delete.retention.ms": "How long a deletion marker stays in the compacted log of the topic, in milliseconds.",
    "min.compaction.lag.ms": "How long a record of the topic stays uncompacted at least, in milliseconds.",
    "max.compaction.lag.ms": "How long a record of the topic may stay uncompacted at most, in milliseconds.",
    "file.delete.delay.ms": "How long the files of a removed segment of the topic stay on the disk under another name, in milliseconds.",
    "min.cleanable.dirty.ratio": "Part of a log of the topic that has to be uncompacted before it is compacted, from 0 to 1. Low values compact more often and waste less space.",
    "cleanup.policy": "What happens to the topic's old segments: delete removes them by age and size, compact keeps the newest record of each key. Both may be given together.",
    "unclean.leader.election.enable": "Whether a replica of the topic that is not in sync may become leader when no other is left, at the price of lost records.",
    "min.insync.replicas": "How many replicas of a partition of the topic must be in sync for a write with acks=all to be accepted.",
    "compression.type": "Compression of the topic's records on the disk: a codec, uncompressed, or producer for what the producer chose.",
    "preallocate": "Whether a new segment file of the topic takes its full size on the disk at once.",
    "message.format.version": "Release whose record format the topic's logs have. It must not be newer than inter.broker.protocol.version.",
    "message.timestamp.type": "Which time a record of the topic carries: CreateTime is the producer's, LogAppendTime that of the broker at the append.",
    "message.timestamp.difference.max.ms": "By how many milliseconds a timestamp in the topic may differ from the broker's clock. It is not checked where message.timestamp.type is LogAppendTime.",
    "leader.replication.throttled.replicas": "Replicas whose leaders are throttled, as partition:broker separated by commas; * means all replicas of the topic.",
    "follower.replication.throttled.replicas": "Replicas that are throttled as followers, as partition:broker separated by commas; * means all replicas of the topic.",
    "message.downconversion.enable": "Whether the topic's records are converted for consumers that know only older formats. Without it these consumers get an error.",
    "kafkapy.flush": "When the topic's records are flushed to the disk: kafka goes by flush.messages and flush.ms, ack acknowledges nothing before an fsync. It is a key of kafkapy alone.",
}  # fmt: skip

UNUSED: Final = frozenset({
    *(name for name in _BROKER if name.startswith((
        "zookeeper.", "ssl.", "sasl.", "delegation.token.",
        "metrics.", "kafka.metrics.",
        "replica.socket.receive.", "fetch.purgatory.", "producer.purgatory.",
        "delete.records.purgatory.",
    ))),
    "socket.connection.setup.timeout.max.ms", "num.network.threads", "num.io.threads",
    "background.threads",
    "queued.max.requests", "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    "create.topic.policy.class.name", "alter.config.policy.class.name", "controller.socket.timeout.ms",
    "metric.reporters",
    "client.quota.callback.class", "security.providers", "principal.builder.class",
} - {
    "zookeeper.connect", "zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests", "zookeeper.set.acl",
    "zookeeper.ssl.client.enable", "zookeeper.clientCnxnSocket", "zookeeper.ssl.protocol",
    "zookeeper.ssl.keystore.location", "zookeeper.ssl.keystore.password", "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.truststore.location", "zookeeper.ssl.truststore.password", "zookeeper.ssl.truststore.type",
    "zookeeper.ssl.enabled.protocols", "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.client.auth", "ssl.principal.mapping.rules",
    "ssl.endpoint.identification.algorithm", "ssl.key.password",
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.truststore.type", "ssl.truststore.location",
    "ssl.truststore.password", "ssl.truststore.certificates",
    "sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.mechanism.inter.broker.protocol",
    "sasl.kerberos.service.name", "sasl.kerberos.principal.to.local.rules",
    "sasl.server.callback.handler.class", "sasl.login.callback.handler.class", *OAUTH_DOCUMENTATION,
    "delegation.token.master.key", "delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms",
    "delegation.token.expiry.check.interval.ms",
})  # fmt: skip
"""Keys that kafkapy reads and checks without any effect: the part of Kafka that they configure is not built."""


def broker_documentation(name: str) -> str | None:
    """Return the text about a broker's key, also with a listener's prefix; None if there is no such key."""
    key = name if name in _BROKER else base_name(name)
    return _with_note(key, _BROKER.get(key))


def group_documentation(name: str) -> str | None:
    """Return the text about a group's key; None if there is no such key."""
    return GROUP_DOCUMENTATION.get(name)


def topic_documentation(name: str) -> str | None:
    """Return the text about a topic's key; None if there is no such key."""
    return _with_note(name, _TOPIC.get(name))


def _with_note(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    if name in REFUSED_KEYS:
        return f"{text} {_REFUSED}"
    if name in KNOWN_CLASSES and name in UNUSED:
        return f"{text} {_ONLY_KAFKAS}"
    return f"{text} {_NOT_USED}" if name in UNUSED and "changes nothing" not in text else text
