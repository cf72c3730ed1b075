import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;

/**
 * OAUTHBEARER as Apache Kafka reads it. Lines of standard input have a command and its arguments in base64:
 * "initial BYTES" prints token, authorization id and sorted extensions of a client's first message, a tab before each
 * name and value; "token TOKEN NAME=VALUE..." what the validator of unsecured tokens says with these options of the
 * login module: the name and the end of a valid token, or the error status and scope. Answers are base64; "-" stands
 * for an exception.
 */
public class OAuthOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                String text = words[0].equals("initial") ? initial(words) : token(words);
                answer = Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
            } catch (Exception error) {
                answer = "-";
            }
            out.append(answer).append('\n');
        }
        System.out.print(out);
    }

    private static String initial(String[] words) throws Exception {
        OAuthBearerClientInitialResponse message =
            new OAuthBearerClientInitialResponse(Base64.getDecoder().decode(words[1]));
        StringBuilder found = new StringBuilder(message.tokenValue()).append('\t').append(message.authorizationId());
        new TreeMap<>(message.extensions().map()).forEach((name, value) ->
            found.append('\t').append(name).append('\t').append(value));
        return found.toString();
    }

    private static String token(String[] words) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int at = 2; at < words.length; at++) {
            String[] pair = text(words[at]).split("=", 2);
            options.put(pair[0], pair[1]);
        }
        AppConfigurationEntry entry = new AppConfigurationEntry(
            "OAuthBearerLoginModule", AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
        OAuthBearerUnsecuredValidatorCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        handler.configure(Collections.emptyMap(), "OAUTHBEARER", Collections.singletonList(entry));
        OAuthBearerValidatorCallback callback = new OAuthBearerValidatorCallback(text(words[1]));
        handler.handle(new Callback[] {callback});
        if (callback.token() != null) {
            return "valid\t" + callback.token().principalName() + "\t" + callback.token().lifetimeMs();
        }
        return callback.errorStatus() + "\t" + callback.errorScope();
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
