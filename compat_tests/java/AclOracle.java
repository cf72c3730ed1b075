import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's AclAuthorizer. Arguments: the ZooKeeper, super.users, allow.everyone.if.no.acl.found. Lines of standard input,
 * fields separated by tabs: "clear" deletes all ACLs; "add TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION" (the
 * enumerations as their codes) collects an ACL; "apply" creates those that were collected; "ask PRINCIPAL HOST OPERATION
 * TYPE NAME" prints true or false.
 */
public class AclOracle {
    private static final class Context implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Context(String principal, String host) throws Exception {
            String[] parts = principal.split(":", 2);
            this.principal = new KafkaPrincipal(parts[0], parts[1]);
            this.address = InetAddress.getByName(host);
        }

        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public KafkaPrincipal principal() { return principal; }
        @Override public InetAddress clientAddress() { return address; }
        @Override public int requestType() { return 1; }
        @Override public int requestVersion() { return 1; }
        @Override public String clientId() { return "oracle"; }
        @Override public int correlationId() { return 1; }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> config = new HashMap<>();
        config.put("zookeeper.connect", arguments[0]);
        config.put("super.users", arguments[1]);
        config.put("allow.everyone.if.no.acl.found", arguments[2]);
        AclAuthorizer authorizer = new AclAuthorizer();
        authorizer.configure(config);
        Context admin = new Context("User:admin", "127.0.0.1");
        List<AclBinding> collected = new ArrayList<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[0].equals("clear")) {
                authorizer.deleteAcls(admin, Collections.singletonList(AclBindingFilter.ANY));
            } else if (words[0].equals("add")) {
                collected.add(new AclBinding(
                        new ResourcePattern(ResourceType.fromCode(Byte.parseByte(words[1])), words[3],
                                PatternType.fromCode(Byte.parseByte(words[2]))),
                        new AccessControlEntry(words[4], words[5], AclOperation.fromCode(Byte.parseByte(words[6])),
                                AclPermissionType.fromCode(Byte.parseByte(words[7])))));
            } else if (words[0].equals("apply")) {
                for (var created : authorizer.createAcls(admin, collected)) {
                    AclCreateResult result = created.toCompletableFuture().get();
                    if (result.exception().isPresent()) {
                        throw result.exception().get();
                    }
                }
                collected.clear();
            } else {
                Action action = new Action(AclOperation.fromCode(Byte.parseByte(words[3])),
                        new ResourcePattern(ResourceType.fromCode(Byte.parseByte(words[4])), words[5],
                                PatternType.LITERAL), 1, true, true);
                List<AuthorizationResult> results = authorizer.authorize(
                        new Context(words[1], words[2]), Collections.singletonList(action));
                System.out.println(results.get(0) == AuthorizationResult.ALLOWED);
            }
        }
        authorizer.close();
    }
}
