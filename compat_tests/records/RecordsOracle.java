import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.Time;

/**
 * Kafka 2.7.2's own classes as an oracle: one command a line on standard input, one answer a line.
 *
 * read HEX                      each batch, then each record
 * write CODEC TYPE BASE PID EPOCH SEQUENCE TRANSACTIONAL LEADER_EPOCH APPEND_TIME RECORD...   HEX
 * marker TYPE PID EPOCH COORDINATOR_EPOCH TIMESTAMP BASE LEADER_EPOCH                         HEX
 * empty PID EPOCH SEQUENCE BASE LAST LEADER_EPOCH TYPE TIMESTAMP TRANSACTIONAL                HEX
 * version VERSION HEX                                                                         ok | error
 * validate MAGIC OFFSET CODEC TYPE DIFFERENCE COMPACTED NOW HEX                               ok ... | error ...
 * legacy MAGIC CODEC TYPE BASE APPEND_TIME RECORD...                                          HEX
 * down MAGIC FIRST_OFFSET HEX                                                                 HEX
 *
 * A record is TIMESTAMP:KEY:VALUE[:HEADER_KEY=HEADER_VALUE...], bytes in hex, "-" for null.
 */
public class RecordsOracle {
    static final HexFormat HEX = HexFormat.of();
    static final TopicPartition PARTITION = new TopicPartition("orders", 3);
    static final kafka.server.BrokerTopicStats STATS = new kafka.server.BrokerTopicStats();

    public static void main(String[] arguments) {
        Scanner input = new Scanner(System.in, StandardCharsets.UTF_8);
        while (input.hasNextLine()) {
            String[] words = input.nextLine().split(" ");
            String answer;
            try {
                answer = answer(words);
            } catch (kafka.common.RecordValidationException e) {
                answer = error(e.invalidException());
                for (ProduceResponse.RecordError each : scala.jdk.javaapi.CollectionConverters.asJava(e.recordErrors()))
                    answer += "\t" + each.batchIndex + "=" + each.message;
            } catch (Throwable e) {
                answer = error(e);
            }
            System.out.println(answer.replace('\n', ' '));
        }
    }

    static String error(Throwable e) {
        return "error\t" + Errors.forException(e).code() + "\t" + (e instanceof ApiException ? "" : e.getClass().getName() + " ") + e.getMessage();
    }

    static String answer(String[] words) {
        switch (words[0]) {
            case "read": return read(records(words, 1));
            case "write": return write(words);
            case "marker": return marker(words);
            case "empty": return empty(words);
            case "version":
                ProduceRequest.validateRecords(Short.parseShort(words[1]), records(words, 2));
                return "ok";
            case "validate": return validate(words);
            case "legacy": return legacy(words);
            case "down":
                return hex(((MemoryRecords) records(words, 3).downConvert(Byte.parseByte(words[1]), Long.parseLong(words[2]), Time.SYSTEM).records()).buffer());
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static MemoryRecords records(String[] words, int index) {
        byte[] bytes = index < words.length ? HEX.parseHex(words[index]) : new byte[0];
        return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }

    static String read(MemoryRecords records) {
        List<String> lines = new ArrayList<>();
        for (MutableRecordBatch batch : records.batches()) {
            lines.add(String.join(",", "batch", "" + batch.baseOffset(), "" + batch.lastOffset(), "" + batch.sizeInBytes(),
                "" + batch.partitionLeaderEpoch(), "" + batch.magic(), "" + batch.isValid(), "" + batch.compressionType().id,
                "" + batch.timestampType().id, "" + batch.isTransactional(), "" + batch.isControlBatch(), "" + batch.maxTimestamp(),
                "" + batch.producerId(), "" + batch.producerEpoch(), "" + batch.baseSequence(), "" + batch.lastSequence(),
                "" + batch.countOrNull()));
            for (Record record : batch) {
                StringBuilder line = new StringBuilder("record," + record.offset() + "," + record.timestamp() + "," + hex(record.key()) + "," + hex(record.value()));
                for (Header header : record.headers())
                    line.append(",").append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8))).append("=")
                        .append(header.value() == null ? "-" : HEX.formatHex(header.value()));
                if (batch.isControlBatch()) {
                    ControlRecordType type = ControlRecordType.parse(record.key());
                    line.append(",").append(type);
                    if (type == ControlRecordType.ABORT || type == ControlRecordType.COMMIT)
                        line.append(",").append(EndTransactionMarker.deserialize(record).coordinatorEpoch());
                }
                lines.add(line.toString());
            }
        }
        return String.join("\t", lines);
    }

    static byte[] bytes(String word) {
        return word.equals("-") ? null : HEX.parseHex(word);
    }

    static String write(String[] words) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, (byte) 2, CompressionType.forId(Integer.parseInt(words[1])),
            TimestampType.values()[Integer.parseInt(words[2]) + 1], Long.parseLong(words[3]), Long.parseLong(words[9]), Long.parseLong(words[4]),
            Short.parseShort(words[5]), Integer.parseInt(words[6]), Boolean.parseBoolean(words[7]), false, Integer.parseInt(words[8]), 1 << 20);
        return append(builder, words, 10);
    }

    static String append(MemoryRecordsBuilder builder, String[] words, int first) {
        for (int i = first; i < words.length; i++) {
            String[] parts = words[i].split(":", -1);
            Header[] headers = new Header[parts.length - 3];
            for (int h = 3; h < parts.length; h++) {
                String[] pair = parts[h].split("=", -1);
                headers[h - 3] = new RecordHeader(new String(HEX.parseHex(pair[0]), StandardCharsets.UTF_8), bytes(pair[1]));
            }
            builder.append(new SimpleRecord(Long.parseLong(parts[0]), bytes(parts[1]), bytes(parts[2]), headers));
        }
        return hex(builder.build().buffer());
    }

    static String legacy(String[] words) {
        return append(MemoryRecords.builder(ByteBuffer.allocate(1 << 16), Byte.parseByte(words[1]),
            CompressionType.forId(Integer.parseInt(words[2])), TimestampType.values()[Integer.parseInt(words[3]) + 1],
            Long.parseLong(words[4]), Long.parseLong(words[5])), words, 6);
    }

    static String marker(String[] words) {
        EndTransactionMarker marker = new EndTransactionMarker(ControlRecordType.valueOf(words[1]), Integer.parseInt(words[4]));
        return hex(MemoryRecords.withEndTransactionMarker(Long.parseLong(words[6]), Long.parseLong(words[5]), Integer.parseInt(words[7]),
            Long.parseLong(words[2]), Short.parseShort(words[3]), marker).buffer());
    }

    static String empty(String[] words) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(buffer, (byte) 2, Long.parseLong(words[1]), Short.parseShort(words[2]), Integer.parseInt(words[3]),
            Long.parseLong(words[4]), Long.parseLong(words[5]), Integer.parseInt(words[6]), TimestampType.values()[Integer.parseInt(words[7]) + 1],
            Long.parseLong(words[8]), Boolean.parseBoolean(words[9]), false);
        buffer.flip();
        return hex(buffer);
    }

    /** What Kafka's Log does around LogValidator that can be seen: CRCs, the codec of the whole set, its trailing bytes. */
    static String validate(String[] words) {
        MemoryRecords records = records(words, 8);
        int source = 0;
        int valid = 0;
        for (MutableRecordBatch batch : records.batches()) {
            if (batch.magic() >= 2 && batch.baseOffset() != 0)
                throw new InvalidRecordException("base offset " + batch.baseOffset());
            batch.ensureValid();
            valid += batch.sizeInBytes();
            source = batch.compressionType() == CompressionType.NONE ? source : batch.compressionType().id;
        }
        ByteBuffer trimmed = records.buffer();
        trimmed.limit(valid);
        records = MemoryRecords.readableRecords(trimmed);
        int target = Integer.parseInt(words[3]);
        kafka.message.CompressionCodec sourceCodec = kafka.message.CompressionCodec$.MODULE$.getCompressionCodec(source);
        kafka.message.CompressionCodec targetCodec = kafka.message.CompressionCodec$.MODULE$.getCompressionCodec(target < 0 ? source : target);
        kafka.common.LongRef offsets = new kafka.common.LongRef(Long.parseLong(words[2]));
        kafka.log.LogValidator.ValidationAndOffsetAssignResult result = kafka.log.LogValidator$.MODULE$.validateMessagesAndAssignOffsets(
            records, PARTITION, offsets, Time.SYSTEM, Long.parseLong(words[7]), sourceCodec, targetCodec,
            Boolean.parseBoolean(words[6]), Byte.parseByte(words[1]), TimestampType.values()[Integer.parseInt(words[4]) + 1], Long.parseLong(words[5]), 0,
            kafka.log.AppendOrigin.Client$.MODULE$, kafka.api.ApiVersion$.MODULE$.latestVersion(), STATS);
        return "ok\t" + result.maxTimestamp() + "\t" + result.shallowOffsetOfMaxTimestamp() + "\t" + hex(result.validatedRecords().buffer()) + "\t" + offsets.value();
    }
}
