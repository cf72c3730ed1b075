import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.consumer.Blacklist;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/** The high-level consumers of Kafka 0.8.2 and 0.9, asked in lines of JSON (see agent.py); there are no arguments. */
public final class OriginalConsumers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<OriginalConsumers> MEMBERS = new ArrayList<>();

    private final ConsumerConnector connector;
    private final List<Thread> threads = new ArrayList<>();
    private List<Object> received = new ArrayList<>();

    private OriginalConsumers(JsonNode question) {
        Properties settings = new Properties();
        Iterator<Map.Entry<String, JsonNode>> given = question.get("settings").fields();
        while (given.hasNext()) {
            Map.Entry<String, JsonNode> each = given.next();
            settings.put(each.getKey(), each.getValue().asText());
        }
        connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        for (KafkaStream<byte[], byte[]> stream : streams(question)) {
            Thread thread = new Thread(() -> read(stream));
            threads.add(thread);
            thread.start();
        }
    }

    private List<KafkaStream<byte[], byte[]>> streams(JsonNode question) {
        int count = question.get("streams").asInt();
        if (question.has("white_list")) {
            return connector.createMessageStreamsByFilter(new Whitelist(question.get("white_list").asText()), count);
        }
        if (question.has("black_list")) {
            return connector.createMessageStreamsByFilter(new Blacklist(question.get("black_list").asText()), count);
        }
        String topic = question.get("topic").asText();
        return connector.createMessageStreams(Collections.singletonMap(topic, count)).get(topic);
    }

    private void read(KafkaStream<byte[], byte[]> stream) {
        ConsumerIterator<byte[], byte[]> records = stream.iterator();
        while (records.hasNext()) {
            MessageAndMetadata<byte[], byte[]> each = records.next();
            String value = new String(each.message(), StandardCharsets.UTF_8);
            take(new Object[] {each.topic(), each.partition(), each.offset(), value});
        }
    }

    private synchronized void take(Object record) {
        received.add(record);
    }

    private synchronized List<Object> polled() {
        List<Object> found = received;
        received = new ArrayList<>();
        return found;
    }

    private List<Object> left() throws InterruptedException {
        connector.shutdown();
        for (Thread each : threads) {
            each.join();
        }
        return polled();
    }

    private static Object answer(JsonNode question) throws Exception {
        if (question.get("do").asText().equals("join")) {
            MEMBERS.add(new OriginalConsumers(question));
            return MEMBERS.size() - 1;
        }
        OriginalConsumers member = MEMBERS.get(question.get("member").asInt());
        switch (question.get("do").asText()) {
            case "poll":
                return member.polled();
            case "commit":
                member.connector.commitOffsets();
                return null;
            default:
                return member.left();
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> reply = new HashMap<>();
            try {
                reply.put("result", answer(JSON.readTree(line)));
            } catch (Exception thrown) {
                Map<String, Object> error = new HashMap<>();
                error.put("code", -1);
                error.put("message", String.valueOf(thrown));
                reply.put("error", error);
            }
            answers.println(JSON.writeValueAsString(reply));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
