import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Consumers of one group that are started and stopped on command: BOOTSTRAP TOPIC STRATEGY dynamic|static. The group is
 * called as the topic.
 *
 * Standard input has a command in each line, "start MEMBER classic|consumer" or "stop MEMBER". Standard output tells in
 * order what happens: "given MEMBER PARTITION ...", "taken MEMBER PARTITION ..." once their offsets are committed,
 * "lost MEMBER PARTITION ...", "read PARTITION VALUE", "stopped MEMBER", "failed MEMBER REASON".
 */
public class RollingConsumers {
    private static String bootstrap;
    private static String topic;
    private static String strategy;
    private static boolean isStatic;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        strategy = arguments[2];
        isStatic = arguments[3].equals("static");
        Map<String, Member> members = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                Member member = new Member(words[1], words[2]);
                members.put(words[1], member);
                member.start();
            } else {
                Member member = members.remove(words[1]);
                member.isLeaving = true;
                member.join();
                say("stopped " + words[1]);
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String name;
        private final String protocol;
        private volatile boolean isLeaving;
        private KafkaConsumer<String, String> consumer;

        Member(String name, String protocol) {
            this.name = name;
            this.protocol = protocol;
        }

        @Override public void run() {
            try {
                consumer = new KafkaConsumer<>(properties(), new StringDeserializer(), new StringDeserializer());
                consumer.subscribe(List.of(topic), this);
                while (!isLeaving) {
                    for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(20))) {
                        say("read " + each.partition() + " " + each.value());
                    }
                }
                consumer.close();
            } catch (RuntimeException error) {
                say("failed " + name + " " + error);
            }
        }

        private Properties properties() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", topic);
            properties.put("group.protocol", protocol);
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            if (isStatic) {
                properties.put("group.instance.id", "member-" + name);
            }
            if (protocol.equals("classic")) {
                properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + strategy);
                properties.put("heartbeat.interval.ms", "200");
                properties.put("session.timeout.ms", "20000");
            }
            return properties;
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("given " + name + numbers(partitions));
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            consumer.commitSync();
            say("taken " + name + numbers(partitions));
        }

        @Override public void onPartitionsLost(Collection<TopicPartition> partitions) {
            say("lost " + name + numbers(partitions));
        }

        private static String numbers(Collection<TopicPartition> partitions) {
            return partitions.stream().map(each -> " " + each.partition()).collect(Collectors.joining());
        }
    }
}
