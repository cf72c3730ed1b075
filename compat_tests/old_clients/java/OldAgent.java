import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients of Kafka 0.8.2 to 0.10, asked in the same lines as the newer ones (see agent.py); the arguments are the
 * broker's host and port. What only some of these releases have is found by reflection.
 */
public final class OldAgent {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int UNSUPPORTED = -100;
    private static final List<Load> LOADS = new ArrayList<>();
    private static String bootstrap;

    private OldAgent() {
    }

    static String bootstrap() {
        return bootstrap;
    }

    /** One that gives no record up while a broker is away. */
    private static KafkaProducer<byte[], byte[]> patientProducer() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap());
        settings.put("acks", "-1");
        settings.put("retries", "200"); // of what was under way: for what is not sent yet a broker is waited for
        settings.put("retry.backoff.ms", "100");
        settings.put("max.in.flight.requests.per.connection", "1");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] bytes(JsonNode node) throws Exception {
        return node == null || node.isNull() ? null : node.binaryValue();
    }

    static Map<String, Object> received(byte[] key, byte[] value, int partition, long offset, Object record) {
        Map<String, Object> found = new HashMap<>();
        found.put("key", key);
        found.put("value", value);
        found.put("headers", new Object[0]);
        found.put("partition", partition);
        found.put("offset", offset);
        found.put("timestamp", optional(record, "timestamp"));
        found.put("append_time", "LogAppendTime".equals(String.valueOf(optional(record, "timestampType"))));
        return found;
    }

    /** What a method returns that came with 0.10, else null. */
    private static Object optional(Object target, String method) {
        try {
            return target.getClass().getMethod(method).invoke(target);
        } catch (ReflectiveOperationException missing) {
            return null;
        }
    }

    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode sent) throws Exception {
        int partition = sent.get("partition").asInt();
        byte[] key = bytes(sent.get("key"));
        byte[] value = bytes(sent.get("value"));
        for (Constructor<?> each : ProducerRecord.class.getConstructors()) {
            if (each.getParameterTypes().length == 5 && !sent.get("timestamp").isNull()) {
                long timestamp = sent.get("timestamp").asLong();
                return (ProducerRecord<byte[], byte[]>) each.newInstance(topic, partition, timestamp, key, value);
            }
        }
        return new ProducerRecord<>(topic, partition, key, value);
    }

    private static Object produce(JsonNode question) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap());
        settings.put("compression.type", question.get("codec").asText());
        settings.put("acks", question.get("acks").asText());
        settings.put("max.request.size", question.get("limit").asText());
        settings.put("linger.ms", "20");
        settings.put("retries", "0");
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        List<Object> places = new ArrayList<>();
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            for (JsonNode sent : question.get("records")) {
                futures.add(producer.send(record(question.get("topic").asText(), sent)));
            }
            for (Future<RecordMetadata> future : futures) {
                RecordMetadata place = future.get();
                places.add(new long[] {place.partition(), place.offset()});
            }
        } finally {
            producer.close();
        }
        return places;
    }

    private static Object answer(JsonNode question) throws Exception {
        switch (question.get("do").asText()) {
            case "produce":
                return produce(question);
            case "produce_scala":
                return ScalaClients.produce(question);
            case "consume_simple":
                return ScalaClients.consume(question);
            case "offsets_before":
                return ScalaClients.offsetsBefore(question);
            case "start_load":
                LOADS.add(new Load(patientProducer(), question.get("topic").asText()));
                return LOADS.size() - 1;
            case "load_state":
            case "finish_load":
                return LOADS.get(question.get("load").asInt()).answer(question.get("do").asText());
            default:
                Class<?> later = Class.forName("NewConsumer");
                return later.getMethod("answer", JsonNode.class).invoke(null, question);
        }
    }

    private static Map<String, Object> error(Throwable thrown) {
        Throwable cause = thrown;
        while (cause instanceof ExecutionException || cause instanceof InvocationTargetException) {
            cause = cause.getCause();
        }
        Map<String, Object> error = new HashMap<>();
        error.put("code", code(cause));
        error.put("message", String.valueOf(cause));
        return error;
    }

    private static int code(Throwable cause) {
        if (cause instanceof ClassNotFoundException) {
            return UNSUPPORTED; // the consumer came with 0.9
        }
        return cause instanceof CodeException ? ((CodeException) cause).code : Errors.forException(cause).code();
    }

    /** An error code that a Scala client handed on as a number. */
    static final class CodeException extends Exception {
        final int code;

        CodeException(int code) {
            super("error " + code);
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> reply = new HashMap<>();
            try {
                reply.put("result", answer(JSON.readTree(line)));
            } catch (Exception thrown) {
                reply.put("error", error(thrown));
            }
            answers.println(JSON.writeValueAsString(reply));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
