import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic to another one in transactions that contain the offsets, until its input ends: bootstrap, group and
 * transactional id, source, target. Writes a line for each transaction, "committed" with its milliseconds and the next
 * offset of each partition, and for each error.
 */
public final class Copier {
    private final String[] arguments;
    private volatile boolean isOver;
    private final Map<TopicPartition, Long> acknowledged = new HashMap<>();

    private Copier(String[] arguments) {
        this.arguments = arguments;
        Thread reader = new Thread(this::waitForEnd);
        reader.setDaemon(true);
        reader.start();
    }

    private void waitForEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            System.out.println("error " + error);
        }
        isOver = true;
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("request.timeout.ms", "6000");
        settings.put("metadata.max.age.ms", "5000");
        settings.put("default.api.timeout.ms", "20000");
        return settings;
    }

    private KafkaProducer<byte[], byte[]> producer() {
        Properties settings = settings();
        settings.put("transactional.id", arguments[1]);
        settings.put("transaction.timeout.ms", "30000");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("max.block.ms", "30000");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties settings = settings();
        settings.put("group.id", arguments[1]);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", "200");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** One incarnation: it fences the one before, and continues at the committed offsets; ends with the first error. */
    private void run() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(); KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            producer.initTransactions();
            List<TopicPartition> sources = new ArrayList<>();
            consumer.partitionsFor(arguments[2]).forEach(found -> sources.add(new TopicPartition(arguments[2], found.partition())));
            consumer.assign(sources);
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new HashSet<>(sources));
            for (int left = 60; left > 0 && isOlder(committed); left--) {
                System.out.println("error OlderOffsets of a coordinator that was stopped; asked again");
                Thread.sleep(500);
                committed = consumer.committed(new HashSet<>(sources));
            }
            for (TopicPartition source : sources) {
                consumer.seek(source, committed.get(source) == null ? 0 : committed.get(source).offset());
            }
            while (!isOver) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(300));
                if (!records.isEmpty()) {
                    copy(producer, consumer, records);
                    Thread.sleep(200);
                }
            }
        }
    }

    /** Whether they are behind the last transaction that is known to be committed. */
    private boolean isOlder(Map<TopicPartition, OffsetAndMetadata> committed) {
        for (Map.Entry<TopicPartition, Long> known : acknowledged.entrySet()) {
            OffsetAndMetadata found = committed.get(known.getKey());
            if (found == null || found.offset() < known.getValue()) {
                return true;
            }
        }
        return false;
    }

    private void copy(
            KafkaProducer<byte[], byte[]> producer,
            KafkaConsumer<byte[], byte[]> consumer,
            ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        StringBuilder places = new StringBuilder();
        long beganMs = System.currentTimeMillis();
        producer.beginTransaction();
        for (TopicPartition source : records.partitions()) {
            long next = 0;
            for (ConsumerRecord<byte[], byte[]> record : records.records(source)) {
                String text = new String(record.value(), StandardCharsets.UTF_8);
                byte[] value = text.substring(0, text.indexOf('|') + 1).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(arguments[3], source.partition(), (byte[]) null, value));
                next = record.offset() + 1;
            }
            offsets.put(source, new OffsetAndMetadata(next));
            places.append(' ').append(source.partition()).append(':').append(next);
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
        offsets.forEach((source, offset) -> acknowledged.put(source, offset.offset()));
        System.out.println("committed " + (System.currentTimeMillis() - beganMs) + places);
    }

    public static void main(String[] arguments) throws Exception {
        Copier copier = new Copier(arguments);
        while (!copier.isOver) {
            try {
                copier.run();
            } catch (KafkaException error) {
                System.out.println("error " + error.getClass().getSimpleName() + " " + String.valueOf(error.getMessage()).split("\n")[0]);
                Thread.sleep(200);
            }
        }
    }
}
