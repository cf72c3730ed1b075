import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.SimpleRate;

/**
 * Kafka's rate of throttled replication. Lines of standard input: "new WINDOWS SECONDS" begins a rate, "record MS BYTES"
 * counts bytes at a time, "measure MS" prints the rate at a time.
 */
public class RateOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        SimpleRate rate = null;
        MetricConfig config = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("new")) {
                rate = new SimpleRate();
                config = new MetricConfig().samples(Integer.parseInt(words[1]))
                        .timeWindow(Long.parseLong(words[2]), TimeUnit.SECONDS);
            } else if (words[0].equals("record")) {
                rate.record(config, Double.parseDouble(words[2]), Long.parseLong(words[1]));
            } else {
                System.out.println(rate.measure(config, Long.parseLong(words[1])));
            }
        }
    }
}
