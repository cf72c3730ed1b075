import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.function.Supplier;
import kafka.network.RequestChannel;
import kafka.server.ClientQuotaManager;
import kafka.server.ClientQuotaManagerConfig;
import kafka.server.ControllerMutationQuota;
import kafka.server.ControllerMutationQuotaManager;
import kafka.server.QuotaType;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import scala.Option;

/**
 * Quotas as Apache Kafka computes them, on a clock of its own. Lines of standard input are commands; "-" stands for no
 * user or client id, "*" for the default.
 *
 *   new WINDOWS SECONDS              forgets everything
 *   set USER CLIENT BOUND            sets a quota of bytes and of mutations; the bound "-" removes it
 *   record MS USER CLIENT AMOUNT     after MS milliseconds; prints the throttle time
 *   strict MS USER CLIENT AMOUNT     the same for mutations, as new clients get it: "refused" and the throttle time
 *   permissive MS USER CLIENT AMOUNT the same for mutations, as old clients get it
 */
public class QuotaOracle {
    private static final class OwnTime implements Time {
        private long nowMs = 1_000_000_000L;

        @Override public long milliseconds() { return nowMs; }
        @Override public long hiResClockMs() { return nowMs; }
        @Override public long nanoseconds() { return nowMs * 1_000_000L; }
        @Override public void sleep(long ms) { nowMs += ms; }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        OwnTime time = new OwnTime();
        ClientQuotaManager bytes = null;
        ControllerMutationQuotaManager mutations = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("new")) {
                ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(
                    Long.MAX_VALUE, Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                bytes = new ClientQuotaManager(
                    config, new Metrics(time), QuotaType.Produce$.MODULE$, time, "", Option.apply(null));
                mutations = new ControllerMutationQuotaManager(config, new Metrics(time), time, "", Option.apply(null));
                continue;
            }
            if (words[0].equals("set")) {
                Option<Quota> quota = Option.apply(
                    words[3].equals("-") ? null : Quota.upperBound(Double.parseDouble(words[3])));
                for (ClientQuotaManager each : new ClientQuotaManager[] {bytes, mutations}) {
                    each.updateQuota(entity(words[1], true), entity(words[2], false), entity(words[2], true), quota);
                }
                continue;
            }
            time.sleep(Long.parseLong(words[1]));
            RequestChannel.Session session = new RequestChannel.Session(
                new KafkaPrincipal(KafkaPrincipal.USER_TYPE, words[2]), InetAddress.getLoopbackAddress());
            double amount = Double.parseDouble(words[4]);
            if (words[0].equals("record")) {
                out.append(bytes.recordAndGetThrottleTimeMs(session, words[3], amount, time.milliseconds()));
            } else {
                ControllerMutationQuota quota = words[0].equals("strict")
                    ? mutations.newStrictQuotaFor(session, words[3]) : mutations.newPermissiveQuotaFor(session, words[3]);
                try {
                    quota.record(amount);
                } catch (ThrottlingQuotaExceededException error) {
                    out.append("refused ");
                }
                out.append(quota.throttleTime());
            }
            out.append('\n');
        }
        System.out.print(out);
        System.out.flush();
        System.exit(0);
    }

    private static Option<String> entity(String word, boolean sanitized) {
        if (word.equals("-")) {
            return Option.apply(null);
        }
        if (word.equals("*")) {
            return Option.apply("<default>");
        }
        return Option.apply(sanitized ? Sanitizer.sanitize(word) : word);
    }
}
