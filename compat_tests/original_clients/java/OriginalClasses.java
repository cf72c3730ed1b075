import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.RangeAssignor;
import kafka.producer.ByteArrayPartitioner;
import kafka.producer.DefaultPartitioner;
import kafka.utils.VerifiableProperties;
import kafka.utils.ZKStringSerializer$;
import org.I0Itec.zkclient.ZkClient;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Classes of Kafka 0.8.2: the assignment for a consumer, from the registrations in the ZooKeeper of the argument,
 * and the partitioners. A question about an assignment has the group and the consumers; the answer has topic, partition
 * and consumer thread id for each partition.
 */
public final class OriginalClasses {
    private static final ObjectMapper JSON = new ObjectMapper();

    private OriginalClasses() {
    }

    /** The partitions for keys, which are texts in the question, as texts and as their bytes. */
    private static List<Object> partitions(JsonNode question) {
        DefaultPartitioner ofTexts = new DefaultPartitioner(new VerifiableProperties());
        ByteArrayPartitioner ofBytes = new ByteArrayPartitioner(new VerifiableProperties());
        List<Object> found = new ArrayList<>();
        for (JsonNode key : question.get("keys")) {
            byte[] bytes = key.asText().getBytes(StandardCharsets.UTF_8);
            int count = question.get("count").asInt();
            found.add(new int[] {ofTexts.partition(key.asText(), count), ofBytes.partition(bytes, count)});
        }
        return found;
    }

    private static List<Object> answer(JsonNode question, ZkClient zookeeper) {
        if (question.get("do").asText().equals("partitions")) {
            return partitions(question);
        }
        List<Object> found = new ArrayList<>();
        for (JsonNode consumer : question.get("consumers")) {
            AssignmentContext context = new AssignmentContext(
                    question.get("group").asText(), consumer.asText(), true, zookeeper);
            Iterator<Tuple2<TopicAndPartition, ConsumerThreadId>> owners =
                    new RangeAssignor().assign(context).iterator();
            while (owners.hasNext()) {
                Tuple2<TopicAndPartition, ConsumerThreadId> each = owners.next();
                found.add(new Object[] {each._1().topic(), each._1().partition(), each._2().toString()});
            }
        }
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        ZkClient zookeeper = new ZkClient(arguments[0], 10_000, 10_000, ZKStringSerializer$.MODULE$);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> reply = new HashMap<>();
            try {
                reply.put("result", answer(JSON.readTree(line), zookeeper));
            } catch (RuntimeException thrown) {
                Map<String, Object> error = new HashMap<>();
                error.put("code", -1);
                error.put("message", String.valueOf(thrown));
                reply.put("error", error);
            }
            answers.println(JSON.writeValueAsString(reply));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
