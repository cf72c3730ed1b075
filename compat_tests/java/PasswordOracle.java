import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import kafka.utils.PasswordEncoder;
import org.apache.kafka.common.config.types.Password;
import scala.Option;

/**
 * Stored passwords of Apache Kafka. Lines of standard input: "encode SECRET KEY_LENGTH ITERATIONS PASSWORD" or
 * "decode SECRET KEY_LENGTH ITERATIONS TEXT", words in base64 but the numbers. Answers are base64; "-" stands for an
 * exception.
 */
public class PasswordOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                PasswordEncoder encoder = new PasswordEncoder(
                    new Password(text(words[1])), Option.apply(null), "AES/CBC/PKCS5Padding",
                    Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                String found = words[0].equals("encode")
                    ? encoder.encode(new Password(text(words[4]))) : encoder.decode(text(words[4])).value();
                answer = Base64.getEncoder().encodeToString(found.getBytes(StandardCharsets.UTF_8));
            } catch (Exception error) {
                answer = "-";
            }
            out.append(answer).append('\n');
        }
        System.out.print(out);
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
