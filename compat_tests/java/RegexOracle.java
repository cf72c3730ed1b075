import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Regular expressions as Apache Kafka resolves them. Each line of standard input is an expression and names, in base64
 * with spaces between them; the answer has a 1 for each name that the whole expression matches, else a 0, or "invalid"
 * with RE2J's description.
 */
public class RegexOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.append(answer(line.split(" ", -1))).append('\n');
        System.out.print(out);
    }

    private static String answer(String[] words) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(text(words[0]));
        } catch (PatternSyntaxException error) {
            return "invalid " + error.getDescription();
        } catch (RuntimeException error) {
            return "failed " + error;
        }
        StringBuilder found = new StringBuilder();
        for (int place = 1; place < words.length; place++)
            found.append(pattern.matcher(text(words[place])).matches() ? '1' : '0');
        return found.toString();
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
