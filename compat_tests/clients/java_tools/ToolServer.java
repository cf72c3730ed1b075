import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.Consumer;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, since starting a JVM costs more than most tools do.
 *
 * A question is a line of base64 words: the main class, its standard input, its arguments. The answer is a line too:
 * the exit code, then standard output and standard error in base64. Each tool's own main method runs; what would have
 * ended the JVM ends the call instead, and shutdown hooks run at its end.
 */
public final class ToolServer {
    private static final class Ended extends Error {
        Ended() {
            super("exit", null, false, false);
        }
    }

    /** Stands in for System.out, which Scala's Console takes hold of once and for all. */
    private static final class Switch extends OutputStream {
        private final ByteArrayOutputStream current = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            current.write(one);
        }

        @Override
        public synchronized void write(byte[] bytes, int start, int count) {
            current.write(bytes, start, count);
        }

        synchronized byte[] take() {
            byte[] taken = current.toByteArray();
            current.reset();
            return taken;
        }
    }

    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer code;

    private static synchronized void end(int status) {
        if (code == null) {
            code = status;
        }
        throw new Ended();
    }

    private static void runTool(String tool, String[] arguments) throws Exception {
        code = null;
        HOOKS.clear();
        Class<?> type = Class.forName(tool);
        startAfresh(type);
        try {
            type.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Ended)) {
                failure.getCause().printStackTrace();
                code = 1;
            }
        }
        for (Runnable hook : new ArrayList<>(HOOKS)) {
            Thread thread = new Thread(hook);
            thread.start();
            thread.join(10_000);
        }
    }

    /** The console consumer of 2.7 counts in a static variable, as if it would run once only. */
    private static void startAfresh(Class<?> type) throws Exception {
        for (Method method : type.getMethods()) {
            if (method.getName().equals("messageCount_$eq")) {
                method.invoke(null, 0);
            }
        }
    }

    /** What Kafka's tools call instead of System.exit; 4.4 has it in another package. */
    private static Class<?> exit() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException moved) {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        }
    }

    /** Hands a procedure, which gets the arguments of each call, to a setter of Exit. */
    private static void replace(String setter, Consumer<Object[]> procedure) throws Exception {
        for (Method method : exit().getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?>[] type = method.getParameterTypes();
                method.invoke(null, Proxy.newProxyInstance(type[0].getClassLoader(), type, (proxy, called, given) -> {
                    procedure.accept(given);
                    return null;
                }));
            }
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Switch out = new Switch();
        Switch err = new Switch();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        replace("setExitProcedure", given -> end((Integer) given[0]));
        replace("setHaltProcedure", given -> end((Integer) given[0]));
        replace("setShutdownHookAdder", given -> HOOKS.add((Runnable) given[1]));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ", -1);
            String[] arguments = new String[words.length - 2];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = text(words[i + 2]);
            }
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[1])));
            runTool(text(words[0]), arguments);
            System.out.flush();
            Base64.Encoder encoder = Base64.getEncoder();
            String said = encoder.encodeToString(out.take()) + " " + encoder.encodeToString(err.take());
            answers.println((code == null ? 0 : code) + " " + said);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
