import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A broker that says twice that another one leads, and then keeps records for an hour that is over at once. */
public final class Faults {
    private static String control;

    public static void main(String[] arguments) throws Exception {
        Process broker = new ProcessBuilder("kafkapy", "start", "--ephemeral", "--print-bootstrap", "--control-port", "0",
                "log.retention.ms=3600000").redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(broker.getInputStream()));
        String bootstrap = lines.readLine();
        control = lines.readLine();
        try {
            String rule = ask("POST", "/faults",
                    "{\"action\": \"error\", \"error\": \"NOT_LEADER_OR_FOLLOWER\", \"api\": \"Produce\", \"count\": 2}");
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            try (KafkaProducer<String, String> producer =
                    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                producer.send(new ProducerRecord<>("orders", "first")).get();
            }
            String path = "/faults/" + rule.replaceFirst(".*\"id\": (\\d+).*", "$1").trim();
            expect(ask("GET", path, null).contains("\"fired\": 2"), "the producer has tried again");

            TopicPartition orders = new TopicPartition("orders", 0);
            try (KafkaConsumer<String, String> consumer =
                    new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                expect(consumer.beginningOffsets(List.of(orders)).get(orders) == 0, "the record is there");
                ask("POST", "/clock/advance", "{\"duration_ms\": 7200000}");
                expect(consumer.beginningOffsets(List.of(orders)).get(orders) == 1, "its hour is over");
            }
        } finally {
            broker.destroy();
        }
    }

    private static String ask(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(control + path))
                .header("Content-Type", "application/json")
                .method(method, body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body))
                .build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        expect(answer.statusCode() < 300, answer.body());
        return answer.body();
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
        System.out.println("ok: " + what.trim());
    }
}
