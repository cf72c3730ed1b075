import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Answers line by line, so that one JVM serves thousands of cases. A question is four words:
 *
 * <pre>
 *   encode CLASS VERSION JSON     ok BASE64      the message of that JSON
 *   decode CLASS VERSION BASE64   ok JSON        the JSON of those bytes, which the message must fill
 *   again  CLASS VERSION BASE64   ok BASE64      decoded and encoded again
 * </pre>
 *
 * CLASS is the full name of a generated class of the Kafka on the class path; anything that goes wrong answers
 * {@code error REASON}.
 */
public final class CodecOracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(answer(line.split(" ", 4)));
        }
    }

    private static String answer(String[] words) {
        try {
            Class<?> type = Class.forName(words[1]);
            short version = Short.parseShort(words[2]);
            switch (words[0]) {
                case "encode":
                    return "ok " + base64(encode(fromJson(type, words[3], version), version));
                case "decode":
                    return "ok " + toJson(type, decode(type, words[3], version), version);
                case "again":
                    return "ok " + base64(encode(decode(type, words[3], version), version));
                default:
                    return "error unknown question " + words[0];
            }
        } catch (InvocationTargetException e) {
            return "error " + oneLine(e.getCause());
        } catch (Exception e) {
            return "error " + oneLine(e);
        }
    }

    private static Message fromJson(Class<?> type, String json, short version) throws Exception {
        JsonNode node = withBinary(MAPPER.readTree(json));
        return (Message) converter(type).getMethod("read", JsonNode.class, short.class).invoke(null, node, version);
    }

    /** Replaces {"base64": TEXT} by a binary node, the one form that the converters of every release take. */
    private static JsonNode withBinary(JsonNode node) throws Exception {
        if (node.isArray()) {
            ArrayNode array = MAPPER.createArrayNode();
            for (JsonNode element : node) {
                array.add(withBinary(element));
            }
            return array;
        }
        if (!node.isObject()) {
            return node;
        }
        if (node.size() == 1 && node.has("base64")) {
            return BinaryNode.valueOf(Base64.getDecoder().decode(node.get("base64").asText()));
        }
        ObjectNode object = MAPPER.createObjectNode();
        for (Iterator<Map.Entry<String, JsonNode>> fields = node.fields(); fields.hasNext(); ) {
            Map.Entry<String, JsonNode> field = fields.next();
            object.set(field.getKey(), withBinary(field.getValue()));
        }
        return object;
    }

    private static String toJson(Class<?> type, Message message, short version) throws Exception {
        return MAPPER.writeValueAsString(
            converter(type).getMethod("write", type, short.class).invoke(null, message, version));
    }

    private static Class<?> converter(Class<?> type) throws ClassNotFoundException {
        return Class.forName(type.getName() + "JsonConverter");
    }

    private static Message decode(Class<?> type, String text, short version) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(Base64.getDecoder().decode(text));
        Message message = (Message) type.getConstructor().newInstance();
        message.read(reader(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes left over");
        }
        return message;
    }

    /** Up to Kafka 2.7 fields of records have a reader of their own. */
    private static Readable reader(ByteBuffer buffer) throws Exception {
        try {
            Class<?> type = Class.forName("org.apache.kafka.common.protocol.RecordsReadable");
            return (Readable) type.getConstructor(ByteBuffer.class).newInstance(buffer);
        } catch (ClassNotFoundException e) {
            return new ByteBufferAccessor(buffer);
        }
    }

    private static ByteBuffer encode(Message message, short version) throws Exception {
        if (message.getClass().getSimpleName().equals("FetchResponseData") && hasStructs(message)) {
            return encodeStruct(message, version);
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        buffer.flip();
        return buffer;
    }

    private static boolean hasStructs(Message message) {
        return Arrays.stream(message.getClass().getMethods()).anyMatch(method -> method.getName().equals("toStruct"));
    }

    /** Up to Kafka 2.7 a fetch response writes its records to a socket only; its struct form goes to memory. */
    private static ByteBuffer encodeStruct(Message message, short version) throws Exception {
        Object struct = message.getClass().getMethod("toStruct", short.class).invoke(message, version);
        ByteBuffer buffer = ByteBuffer.allocate((int) struct.getClass().getMethod("sizeOf").invoke(struct));
        struct.getClass().getMethod("writeTo", ByteBuffer.class).invoke(struct, buffer);
        buffer.flip();
        return buffer;
    }

    private static String base64(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static String oneLine(Throwable problem) {
        return String.valueOf(problem).replace('\n', ' ').replace('\r', ' ');
    }
}
