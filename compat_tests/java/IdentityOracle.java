import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Names and logins as Apache Kafka reads them. Lines of standard input have a command and its arguments in base64:
 * "subject DER" prints a distinguished name, "map RULES SUBJECT" the name by ssl.principal.mapping.rules, "jaas TEXT" the
 * class and the sorted options of sasl.jaas.config, a tab after each, "kerberos RULES PRINCIPAL" the name by
 * sasl.kerberos.principal.to.local.rules with the default realm REALM. Answers are base64; "-" stands for an exception.
 */
public class IdentityOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = Base64.getEncoder().encodeToString(answer(words).getBytes(StandardCharsets.UTF_8));
            } catch (Exception error) {
                answer = "-";
            }
            out.append(answer).append('\n');
        }
        System.out.print(out);
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "subject": return new X500Principal(Base64.getDecoder().decode(words[1])).getName();
            case "kerberos": return kerberos(text(words[1]), text(words[2]));
            case "map": return SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
            default: return jaas(text(words[1]));
        }
    }

    private static String kerberos(String rules, String principal) throws Exception {
        KerberosShortNamer namer = KerberosShortNamer.fromUnparsedRules("REALM", Arrays.asList(rules.split("\\s*,\\s*", -1)));
        return namer.shortName(KerberosName.parse(principal));
    }

    private static String jaas(String text) {
        Map<String, ?> configs = Collections.singletonMap("sasl.jaas.config", new Password(text));
        List<AppConfigurationEntry> entries = JaasContext.loadClientContext(configs).configurationEntries();
        StringBuilder found = new StringBuilder(entries.get(0).getLoginModuleName());
        new TreeMap<>(entries.get(0).getOptions()).forEach((name, value) ->
            found.append('\t').append(name).append('\t').append(value));
        return found.toString();
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
