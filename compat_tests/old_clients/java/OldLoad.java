import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer that sends numbered records from a thread of its own until it is finished; none of them is given up. */
final class OldLoad {
    private static final int PARTITIONS = 2;
    private static final int PAUSE_MS = 8;
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final Thread thread = new Thread(this::run);
    private final List<long[]> places = new ArrayList<>();
    private final List<String> failures = new ArrayList<>();
    private volatile boolean finishing;

    OldLoad(String topic) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", OldAgent.bootstrap());
        settings.put("acks", "-1");
        settings.put("retries", "200"); // of what was under way: for what is not sent yet a broker is waited for
        settings.put("retry.backoff.ms", "100");
        settings.put("max.in.flight.requests.per.connection", "1");
        this.topic = topic;
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        thread.start();
    }

    private void run() {
        try {
            for (long number = 0; !finishing; number++) {
                send(number);
                Thread.sleep(PAUSE_MS);
            }
        } catch (RuntimeException | InterruptedException thrown) {
            fail(thrown);
        } finally {
            producer.close();
        }
    }

    private void send(long number) {
        byte[] value = Long.toString(number).getBytes(StandardCharsets.UTF_8);
        producer.send(new ProducerRecord<>(topic, (int) (number % PARTITIONS), (byte[]) null, value), (place, thrown) -> {
            if (thrown != null) {
                fail(thrown);
            } else {
                take(new long[] {number, place.partition(), place.offset()});
            }
        });
    }

    private synchronized void take(long[] place) {
        places.add(place);
    }

    private synchronized void fail(Exception thrown) {
        failures.add(thrown.toString());
    }

    private synchronized int acknowledged() {
        return places.size();
    }

    Object answer(String wanted) throws InterruptedException {
        if (wanted.equals("load_state")) {
            return acknowledged();
        }
        finishing = true;
        thread.join();
        Map<String, Object> result = new HashMap<>();
        result.put("places", places);
        result.put("failures", failures);
        return result;
    }
}
