import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** One consumer of a group, polling in a thread of its own until it is told to leave. */
final class OldMember {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread = new Thread(this::run);
    private List<Object> received = new ArrayList<>();
    private volatile boolean leaving;
    private volatile RuntimeException failure;

    OldMember(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        this.consumer = consumer;
        consumer.subscribe(Collections.singletonList(topic));
        thread.start();
    }

    private void run() {
        try {
            while (!leaving) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(50)) {
                    take(OldAgent.received(each.key(), each.value(), each.partition(), each.offset(), each));
                }
            }
        } catch (RuntimeException thrown) {
            failure = thrown;
        } finally {
            consumer.close();
        }
    }

    private synchronized void take(Object record) {
        received.add(record);
    }

    private synchronized Map<String, Object> state() {
        if (failure != null) {
            throw failure;
        }
        Map<String, Object> state = new HashMap<>();
        state.put("assignment", Collections.emptySet());
        state.put("received", received);
        received = new ArrayList<>();
        return state;
    }

    Object answer(String wanted) throws InterruptedException {
        if (wanted.equals("poll")) {
            return state();
        }
        leaving = true;
        thread.join();
        return null;
    }
}
