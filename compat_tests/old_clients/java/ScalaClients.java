import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/** The Scala producer and the SimpleConsumer, which went with Kafka 0.11. */
final class ScalaClients {
    private static final int FETCH_SIZE = 100_000;
    private static final String NAME = "old";
    private static final int LEADER_NOT_AVAILABLE = 5;

    private ScalaClients() {
    }

    static Object produce(JsonNode question) throws Exception {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", OldAgent.bootstrap());
        settings.put("compression.codec", question.get("codec").asText());
        settings.put("request.required.acks", question.get("acks").asText());
        settings.put("serializer.class", "kafka.serializer.DefaultEncoder");
        settings.put("message.send.max.retries", "0");
        Producer<byte[], byte[]> producer = new Producer<>(new ProducerConfig(settings));
        List<KeyedMessage<byte[], byte[]>> messages = new ArrayList<>();
        String topic = question.get("topic").asText();
        for (JsonNode sent : question.get("records")) {
            messages.add(new KeyedMessage<>(topic, OldAgent.bytes(sent.get("key")), OldAgent.bytes(sent.get("value"))));
        }
        try {
            producer.send(messages);
        } finally {
            producer.close();
        }
        return new Object[0];
    }

    /** A consumer of the partition's leader: it does not look for one by itself. */
    private static SimpleConsumer consumer(String topic, int partition) throws Exception {
        SimpleConsumer any = consumer(OldAgent.bootstrap().split(",")[0].split(":"));
        try {
            TopicMetadataRequest wanted = new TopicMetadataRequest(Collections.singletonList(topic));
            for (PartitionMetadata each : any.send(wanted).topicsMetadata().get(0).partitionsMetadata()) {
                if (each.partitionId() == partition && each.leader() != null) {
                    return consumer(each.leader().host(), String.valueOf(each.leader().port()));
                }
            }
        } finally {
            any.close();
        }
        throw new OldAgent.CodeException(LEADER_NOT_AVAILABLE);
    }

    private static SimpleConsumer consumer(String... address) {
        return new SimpleConsumer(address[0], Integer.parseInt(address[1]), 20_000, 1 << 20, NAME);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] copy = new byte[buffer.remaining()];
        buffer.get(copy);
        return copy;
    }

    static Object consume(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        int partition = question.get("partition").asInt();
        int count = question.get("count").asInt();
        int size = question.has("size") ? question.get("size").asInt() : FETCH_SIZE;
        long offset = Math.max(question.get("offset").asLong(), 0);
        List<Object> found = new ArrayList<>();
        SimpleConsumer consumer = consumer(topic, partition);
        try {
            boolean moving = true;
            while (moving && found.size() < count) {
                moving = false;
                FetchRequestBuilder builder = new FetchRequestBuilder().clientId(NAME);
                FetchResponse response = consumer.fetch(builder.addFetch(topic, partition, offset, size).build());
                if (response.hasError()) {
                    throw new OldAgent.CodeException(response.errorCode(topic, partition));
                }
                for (MessageAndOffset each : response.messageSet(topic, partition)) {
                    if (each.offset() >= offset && found.size() < count) {
                        byte[] key = bytes(each.message().key());
                        byte[] value = bytes(each.message().payload());
                        found.add(OldAgent.received(key, value, partition, each.offset(), each.message()));
                        offset = each.nextOffset();
                        moving = true;
                    }
                }
            }
        } finally {
            consumer.close();
        }
        return found;
    }

    static Object offsetsBefore(JsonNode question) throws Exception {
        String topic = question.get("topic").asText();
        long time = question.get("timestamp").asLong();
        TopicAndPartition place = new TopicAndPartition(topic, 0);
        Map<TopicAndPartition, PartitionOffsetRequestInfo> wanted =
                Collections.singletonMap(place, new PartitionOffsetRequestInfo(time, question.get("most").asInt()));
        SimpleConsumer consumer = consumer(topic, 0);
        try {
            OffsetResponse response =
                    consumer.getOffsetsBefore(new OffsetRequest(wanted, kafka.api.OffsetRequest.CurrentVersion(), NAME));
            if (response.hasError()) {
                throw new OldAgent.CodeException(response.errorCode(topic, 0));
            }
            return response.offsets(topic, 0);
        } finally {
            consumer.close();
        }
    }
}
