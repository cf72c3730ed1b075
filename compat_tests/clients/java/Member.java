import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** One consumer of a group, polling in a thread of its own, which does everything that concerns the consumer. */
final class Member {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread;
    private List<Object> received = new ArrayList<>();
    private Set<Integer> assignment = new TreeSet<>();
    private CompletableFuture<Void> commit;
    private volatile boolean leaving;
    private volatile KafkaException failure;

    Member(String group, String topic, String reset) {
        consumer = Agent.consumer(group, "read_uncommitted", reset);
        consumer.subscribe(Collections.singleton(topic));
        thread = new Thread(this::run);
        thread.start();
    }

    private void run() {
        try (consumer) {
            while (!leaving) {
                Iterable<ConsumerRecord<byte[], byte[]>> records = consumer.poll(Duration.ofMillis(50));
                Set<Integer> held = new TreeSet<>();
                for (TopicPartition place : consumer.assignment()) {
                    held.add(place.partition());
                }
                CompletableFuture<Void> wanted;
                synchronized (this) {
                    records.forEach(record -> received.add(Agent.received(record)));
                    assignment = held;
                    wanted = commit;
                    commit = null;
                }
                if (wanted != null) {
                    commit(wanted);
                }
            }
        } catch (KafkaException thrown) {
            failure = thrown;
        }
    }

    private void commit(CompletableFuture<Void> wanted) {
        try {
            consumer.commitSync();
            wanted.complete(null);
        } catch (RuntimeException refusal) {
            wanted.completeExceptionally(refusal);
        }
    }

    private synchronized Map<String, Object> state() {
        if (failure != null) {
            throw failure;
        }
        Map<String, Object> state = new HashMap<>();
        state.put("assignment", assignment);
        state.put("received", received);
        received = new ArrayList<>();
        return state;
    }

    Object answer(String wanted) throws Exception {
        if (wanted.equals("poll")) {
            return state();
        }
        if (wanted.equals("leave")) {
            leaving = true;
            thread.join();
            return null;
        }
        CompletableFuture<Void> done = new CompletableFuture<>();
        synchronized (this) {
            commit = done;
        }
        return done.get();
    }
}
