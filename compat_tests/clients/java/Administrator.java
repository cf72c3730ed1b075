import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The questions that the Admin client answers, in words that it has known from 2.7 to 4.4. */
final class Administrator {
    private Administrator() {
    }

    static Object answer(JsonNode question) throws Exception {
        try (Admin admin = Admin.create(Agent.settings())) {
            String wanted = question.get("do").asText();
            return wanted.endsWith("group") || wanted.equals("groups") ? groups(admin, question) : topics(admin, question);
        }
    }

    private static Object topics(Admin admin, JsonNode question) throws Exception {
        String topic = Agent.topic(question);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        switch (question.get("do").asText()) {
            case "create_topic":
                Map<String, String> settings = new HashMap<>();
                question.get("configs").fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
                NewTopic wanted = new NewTopic(topic, question.get("partitions").asInt(), (short) -1).configs(settings);
                return admin.createTopics(Collections.singleton(wanted)).all().get();
            case "delete_topic":
                return admin.deleteTopics(Collections.singleton(topic)).all().get();
            case "add_partitions":
                NewPartitions total = NewPartitions.increaseTo(question.get("total").asInt());
                return admin.createPartitions(Map.of(topic, total)).all().get();
            case "configs":
                Map<String, String> configs = new HashMap<>();
                for (ConfigEntry each : admin.describeConfigs(Set.of(resource)).all().get().get(resource).entries()) {
                    configs.put(each.name(), each.value());
                }
                return configs;
            case "set_config":
                ConfigEntry entry = new ConfigEntry(question.get("key").asText(), question.get("value").asText());
                Set<AlterConfigOp> change = Set.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                return admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
            case "delete_records":
                TopicPartition place = new TopicPartition(topic, 0);
                RecordsToDelete before = RecordsToDelete.beforeOffset(question.get("before").asLong());
                return admin.deleteRecords(Map.of(place, before)).lowWatermarks().get(place).get().lowWatermark();
            default:
                throw new IllegalArgumentException(question.toString());
        }
    }

    private static Object groups(Admin admin, JsonNode question) throws Exception {
        if (question.get("do").asText().equals("groups")) {
            Set<String> names = new HashSet<>();
            for (ConsumerGroupListing each : admin.listConsumerGroups().all().get()) {
                names.add(each.groupId());
            }
            return names;
        }
        String group = question.get("group").asText();
        if (question.get("do").asText().equals("delete_group")) {
            return admin.deleteConsumerGroups(Set.of(group)).all().get();
        }
        ConsumerGroupDescription found = admin.describeConsumerGroups(Set.of(group)).describedGroups().get(group).get();
        String protocolType = found.isSimpleConsumerGroup() ? "" : "consumer";
        return new Object[] {found.state().toString(), protocolType, found.members().size()};
    }
}
