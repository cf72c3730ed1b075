import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with one name node and one data node in this process, until its standard input ends; prints its URL. */
public class SmallDfs {
    public static void main(String[] arguments) throws Exception {
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(new Configuration(), new File(arguments[0])).build();
        cluster.waitActive();
        System.out.println(cluster.getURI());
        System.out.flush();
        while (System.in.read() >= 0) { }
        cluster.shutdown();
    }
}
