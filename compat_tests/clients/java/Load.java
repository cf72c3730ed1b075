import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Sends numbered records through a producer, of whatever release, from a thread of its own until it is finished. */
final class Load {
    private static final int PARTITIONS = 2;
    private static final int PAUSE_MS = 8;
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final Thread thread = new Thread(this::run);
    private final List<long[]> places = new ArrayList<>();
    private final List<String> failures = new ArrayList<>();
    private volatile boolean finishing;

    Load(KafkaProducer<byte[], byte[]> producer, String topic) {
        this.producer = producer;
        this.topic = topic;
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
