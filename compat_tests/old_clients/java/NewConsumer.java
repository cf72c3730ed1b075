import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The consumer that came with Kafka 0.9. */
public final class NewConsumer {
    private static final long TIMEOUT_MS = 20_000;
    private static final List<OldMember> MEMBERS = new ArrayList<>();

    private NewConsumer() {
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String group, JsonNode question) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", OldAgent.bootstrap());
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "10000");
        settings.put("max.partition.fetch.bytes", question.has("size") ? question.get("size").asText() : "1048576");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<Object> poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<Object> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (found.size() < count && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(100)) {
                if (found.size() < count) {
                    found.add(OldAgent.received(each.key(), each.value(), each.partition(), each.offset(), each));
                }
            }
        }
        return found;
    }

    public static Object answer(JsonNode question) throws InterruptedException {
        if (question.has("member")) {
            return MEMBERS.get(question.get("member").asInt()).answer(question.get("do").asText());
        }
        String topic = question.get("topic").asText();
        if (question.get("do").asText().equals("join")) {
            MEMBERS.add(new OldMember(consumer(question.get("group").asText(), question), topic));
            return MEMBERS.size() - 1;
        }
        int count = question.get("count").asInt();
        if (question.get("do").asText().equals("consume")) {
            TopicPartition place = new TopicPartition(topic, question.get("partition").asInt());
            try (KafkaConsumer<byte[], byte[]> consumer = consumer("none", question)) {
                consumer.assign(Collections.singletonList(place));
                consumer.seek(place, Math.max(question.get("offset").asLong(), 0));
                return poll(consumer, count);
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(question.get("group").asText(), question)) {
            consumer.subscribe(Collections.singletonList(topic));
            List<Object> found = poll(consumer, count);
            TopicPartition place = new TopicPartition(topic, 0);
            long next = consumer.position(place);
            consumer.commitSync(Collections.singletonMap(place, new OffsetAndMetadata(next)));
            return found;
        }
    }
}
