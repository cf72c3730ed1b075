import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Assignments as Apache Kafka's assignors make them. Each line of standard input is a group, with tabs between its
 * parts, and a line of standard output is its assignment:
 *
 *   ASSIGNOR  homogeneous|heterogeneous  TOPIC,...  MEMBER  ...
 *
 *   TOPIC       UUID:NAME:PARTITIONS:RACK, topics are numbered
 *   MEMBER      ID|INSTANCE|RACK|TOPIC NUMBER,...|ASSIGNMENT, without a value where there is none
 *   ASSIGNMENT  TOPIC NUMBER=PARTITION.PARTITION,...
 *
 * The output has ID|ASSIGNMENT for each member with partitions, everything sorted. With the argument "time", each line
 * begins with the milliseconds that the assignor took.
 */
public class AssignorOracle {
    private record Topic(Uuid id, String name, int partitions, String rack) { }

    private static final class Describer implements SubscribedTopicDescriber {
        private final Map<Uuid, Topic> topics = new HashMap<>();

        @Override public int numPartitions(Uuid topicId) {
            Topic topic = topics.get(topicId);
            return topic == null ? -1 : topic.partitions();
        }

        @Override public Set<String> racksForPartition(Uuid topicId, int partition) {
            return Set.of(topics.get(topicId).rack());
        }
    }

    public static void main(String[] arguments) throws Exception {
        boolean isTimed = arguments.length > 0 && arguments[0].equals("time");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.append(answer(line.split("\t", -1), isTimed)).append('\n');
        System.out.print(out);
    }

    private static String answer(String[] parts, boolean isTimed) {
        List<Topic> topics = new ArrayList<>();
        Describer describer = new Describer();
        for (String text : words(parts[2], ",")) {
            String[] fields = text.split(":", -1);
            UUID id = UUID.fromString(fields[0]);
            Topic topic = new Topic(new Uuid(id.getMostSignificantBits(), id.getLeastSignificantBits()), fields[1],
                Integer.parseInt(fields[2]), fields[3]);
            topics.add(topic);
            describer.topics.put(topic.id(), topic);
        }
        TimelineHashMap<String, MemberSubscriptionAndAssignmentImpl> ofGroup =
            new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (int place = 3; place < parts.length; place++)
            add(parts[place].split("\\|", -1), topics, ofGroup, inverted);
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        ofGroup.forEach(members::put);
        ConsumerGroupPartitionAssignor assignor =
            parts[0].equals("uniform") ? new UniformAssignor() : new RangeAssignor();
        GroupSpecImpl group = new GroupSpecImpl(Collections.unmodifiableMap(members),
            SubscriptionType.valueOf(parts[1].toUpperCase()), inverted);
        long startNs = System.nanoTime();
        Map<String, MemberAssignment> assignments = assignor.assign(group, describer).members();
        long elapsedMs = (System.nanoTime() - startNs) / 1_000_000;
        return (isTimed ? elapsedMs + "\t" : "") + text(assignments, topics);
    }

    private static void add(String[] fields, List<Topic> topics,
            Map<String, MemberSubscriptionAndAssignmentImpl> members, Map<Uuid, Map<Integer, String>> inverted) {
        Set<String> listed = new LinkedHashSet<>();
        Map<String, Uuid> byName = new HashMap<>();
        for (String number : words(fields[3], ",")) {
            Topic topic = topics.get(Integer.parseInt(number));
            listed.add(topic.name());
            byName.put(topic.name(), topic.id());
        }
        Set<Uuid> subscribed = new LinkedHashSet<>();
        for (String name : new HashSet<>(listed))
            subscribed.add(byName.get(name));
        Map<Uuid, Set<Integer>> owned = new HashMap<>();
        for (String text : words(fields[4], ",")) {
            String[] pair = text.split("=");
            Uuid id = topics.get(Integer.parseInt(pair[0])).id();
            List<Integer> partitions = new ArrayList<>();
            for (String partition : pair[1].split("\\.")) {
                partitions.add(Integer.valueOf(partition));
                inverted.computeIfAbsent(id, none -> new HashMap<>()).put(Integer.valueOf(partition), fields[0]);
            }
            owned.put(id, new HashSet<>(partitions));
        }
        members.put(fields[0], new MemberSubscriptionAndAssignmentImpl(
            value(fields[2]), value(fields[1]), subscribed, new Assignment(owned)));
    }

    private static String text(Map<String, MemberAssignment> assignments, List<Topic> topics) {
        List<String> members = new ArrayList<>();
        for (Map.Entry<String, MemberAssignment> member : new TreeMap<>(assignments).entrySet()) {
            List<String> listed = new ArrayList<>();
            for (int number = 0; number < topics.size(); number++) {
                Set<Integer> partitions = member.getValue().partitions().get(topics.get(number).id());
                if (partitions == null)
                    continue;
                List<String> numbers = new ArrayList<>();
                for (int partition : new TreeSet<>(partitions))
                    numbers.add(String.valueOf(partition));
                listed.add(number + "=" + String.join(".", numbers));
            }
            if (!listed.isEmpty())
                members.add(member.getKey() + "|" + String.join(",", listed));
        }
        return String.join("\t", members);
    }

    private static Optional<String> value(String text) {
        return text.isEmpty() ? Optional.empty() : Optional.of(text);
    }

    private static String[] words(String text, String separator) {
        return text.isEmpty() ? new String[0] : text.split(separator);
    }
}
