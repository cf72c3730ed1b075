import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own clients, asked through the agent's questions. */
public final class Agent {
    private static final Duration TIMEOUT = Duration.ofSeconds(40);
    private static final int EARLIEST = -2;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<Member> MEMBERS = new ArrayList<>();
    private static final List<Load> LOADS = new ArrayList<>();
    private static String bootstrap;
    private static JsonNode security;
    private static String groupProtocol;

    static Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        security.fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        return settings;
    }

    static KafkaProducer<byte[], byte[]> producer(Properties settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** An idempotent one, which gives no record up while a broker is away. */
    private static KafkaProducer<byte[], byte[]> patientProducer() {
        Properties settings = settings();
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("request.timeout.ms", "5000");
        settings.put("reconnect.backoff.max.ms", "500");
        return producer(settings);
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group, String isolation, String reset) {
        Properties settings = settings();
        if (group != null) {
            settings.put("group.id", group);
        }
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", reset);
        settings.put("fetch.max.wait.ms", "50");
        if (groupProtocol.equals("classic")) {
            settings.put("session.timeout.ms", "10000");
            settings.put("heartbeat.interval.ms", "500");
        } else { // the broker says both
            settings.put("group.protocol", groupProtocol);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static byte[] bytes(JsonNode node) throws Exception {
        return node == null || node.isNull() ? null : node.binaryValue();
    }

    private static Object produce(JsonNode question) throws Exception {
        Properties settings = settings();
        settings.put("compression.type", question.get("codec").asText());
        settings.put("enable.idempotence", question.get("idempotent").asText());
        settings.put("acks", question.get("acks").asText());
        settings.put("max.request.size", question.get("limit").asText());
        settings.put("linger.ms", "5");
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        List<Object> places = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            for (JsonNode sent : question.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode pair : sent.get("headers")) {
                    headers.add(new RecordHeader(pair.get(0).asText(), bytes(pair.get(1))));
                }
                Long timestamp = sent.get("timestamp").isNull() ? null : sent.get("timestamp").asLong();
                Integer partition = sent.get("partition").isNull() ? null : sent.get("partition").asInt();
                futures.add(producer.send(new ProducerRecord<>(topic(question), partition, timestamp,
                        bytes(sent.get("key")), bytes(sent.get("value")), headers)));
            }
            for (Future<RecordMetadata> future : futures) {
                RecordMetadata place = future.get();
                places.add(new long[] {place.partition(), place.hasOffset() ? place.offset() : -1});
            }
        }
        return places;
    }

    private static Object transact(JsonNode question) throws Exception {
        Properties settings = settings();
        settings.put("transactional.id", question.get("transactional_id").asText());
        TopicPartition place = place(question);
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            producer.initTransactions();
            for (JsonNode each : question.get("transactions")) {
                producer.beginTransaction();
                for (JsonNode value : each.get("values")) {
                    producer.send(new ProducerRecord<>(place.topic(), 0, null, bytes(value)));
                }
                if (!each.get("group").isNull()) {
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    offsets.put(place, new OffsetAndMetadata(each.get("offset").asLong()));
                    producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(each.get("group").asText()));
                }
                producer.flush();
                if (each.get("commit").asBoolean()) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return null;
    }

    private static Object fence(JsonNode question) throws Exception {
        Properties settings = settings();
        settings.put("transactional.id", question.get("transactional_id").asText());
        try (KafkaProducer<byte[], byte[]> first = producer(settings);
                KafkaProducer<byte[], byte[]> second = producer(settings)) {
            for (KafkaProducer<byte[], byte[]> each : List.of(first, second)) {
                each.initTransactions();
                each.beginTransaction();
                byte[] value = (each == first ? "old" : "new").getBytes(StandardCharsets.UTF_8);
                each.send(new ProducerRecord<>(topic(question), 0, null, value)).get();
            }
            second.commitTransaction();
            try {
                first.commitTransaction();
            } catch (ApiException refusal) {
                return Errors.forException(refusal).code();
            }
            throw new IllegalStateException("the first producer was not fenced");
        }
    }

    static Map<String, Object> received(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(header.value());
            headers.add(pair);
        }
        Map<String, Object> found = new HashMap<>();
        found.put("value", record.value());
        found.put("key", record.key());
        found.put("headers", headers);
        found.put("timestamp", record.timestamp());
        found.put("partition", record.partition());
        found.put("offset", record.offset());
        found.put("append_time", record.timestampType() == TimestampType.LOG_APPEND_TIME);
        return found;
    }

    private static Object consume(JsonNode question) {
        int count = question.get("count").asInt();
        long offset = question.get("offset").asLong();
        String isolation = question.get("committed").asBoolean() ? "read_committed" : "read_uncommitted";
        TopicPartition place = place(question);
        List<Object> found = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(null, isolation, "earliest")) {
            consumer.assign(Collections.singleton(place));
            if (offset == EARLIEST) {
                consumer.seekToBeginning(Collections.singleton(place));
            } else if (offset < 0) {
                consumer.seekToEnd(Collections.singleton(place));
            } else {
                consumer.seek(place, offset);
            }
            long deadline = System.nanoTime() + TIMEOUT.toNanos();
            while (found.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (found.size() < count) {
                        found.add(received(record));
                    }
                }
            }
        }
        return found;
    }

    private static Object withConsumer(JsonNode question) {
        TopicPartition place = question.has("topic") ? place(question) : null;
        String group = question.has("group") ? question.get("group").asText() : null;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group, "read_uncommitted", "earliest")) {
            switch (question.get("do").asText()) {
                case "watermarks":
                    long first = consumer.beginningOffsets(Collections.singleton(place)).get(place);
                    return new long[] {first, consumer.endOffsets(Collections.singleton(place)).get(place)};
                case "offset_for_time":
                    long timestamp = question.get("timestamp").asLong();
                    OffsetAndTimestamp young = consumer.offsetsForTimes(Map.of(place, timestamp)).get(place);
                    return young == null ? null : young.offset();
                case "committed":
                    OffsetAndMetadata kept = consumer.committed(Collections.singleton(place)).get(place);
                    return kept == null ? null : kept.offset();
                case "commit":
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    for (JsonNode pair : question.get("offsets")) {
                        TopicPartition each = new TopicPartition(topic(question), pair.get(0).asInt());
                        offsets.put(each, new OffsetAndMetadata(pair.get(1).asLong()));
                    }
                    consumer.commitSync(offsets);
                    return null;
                default:
                    Map<String, Integer> counts = new HashMap<>();
                    consumer.listTopics().forEach((name, partitions) -> counts.put(name, partitions.size()));
                    return counts;
            }
        }
    }

    static String topic(JsonNode question) {
        return question.get("topic").asText();
    }

    static TopicPartition place(JsonNode question) {
        return new TopicPartition(topic(question), question.has("partition") ? question.get("partition").asInt() : 0);
    }

    private static Object answer(JsonNode question) throws Exception {
        String wanted = question.get("do").asText();
        switch (wanted) {
            case "produce":
                return produce(question);
            case "transact":
                return transact(question);
            case "consume":
                return consume(question);
            case "watermarks":
            case "offset_for_time":
            case "committed":
            case "commit":
            case "topics":
                return withConsumer(question);
            case "join":
                MEMBERS.add(new Member(question.get("group").asText(), topic(question), question.get("reset").asText()));
                return MEMBERS.size() - 1;
            case "fence":
                return fence(question);
            case "start_load":
                LOADS.add(new Load(patientProducer(), topic(question)));
                return LOADS.size() - 1;
            case "load_state":
            case "finish_load":
                return LOADS.get(question.get("load").asInt()).answer(wanted);
            case "poll":
            case "commit_member":
            case "leave":
                return MEMBERS.get(question.get("member").asInt()).answer(wanted);
            default:
                return Administrator.answer(question);
        }
    }

    private static Map<String, Object> error(Throwable thrown) {
        Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
        Map<String, Object> error = new HashMap<>();
        error.put("code", Errors.forException(cause).code());
        error.put("message", String.valueOf(cause));
        return error;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> reply = new HashMap<>();
            try {
                JsonNode question = JSON.readTree(line);
                bootstrap = question.get("bootstrap").asText();
                security = question.get("settings");
                groupProtocol = question.get("group_protocol").asText();
                reply.put("result", answer(question));
            } catch (Exception thrown) {
                reply.put("error", error(thrown));
            }
            answers.println(JSON.writeValueAsString(reply));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
