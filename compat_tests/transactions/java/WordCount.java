import java.nio.file.Files;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Counts words with Kafka Streams until its input ends: bootstrap, guarantee, application id, source, target. */
public final class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("processing.guarantee", arguments[1]);
        settings.put("application.id", arguments[2]);
        settings.put("commit.interval.ms", "100");
        settings.put("cache.max.bytes.buffering", "0"); // up to 3.9
        settings.put("statestore.cache.max.bytes", "0"); // from 3.4 on (KIP-770)
        settings.put("replication.factor", "-1");
        settings.put("auto.offset.reset", "earliest");
        settings.put("state.dir", Files.createTempDirectory("word-count").toString());
        settings.put("default.key.serde", Serdes.String().getClass());
        settings.put("default.value.serde", Serdes.String().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[3])
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to(arguments[4]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        while (System.in.read() >= 0) {
            continue;
        }
        streams.close(Duration.ofSeconds(20));
    }
}
