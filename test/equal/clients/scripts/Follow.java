import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpClient.Version;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.zip.GZIPInputStream;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Follows compressed watches with Java's decoder of gzip. follow.py has the protocol. */
class Follow {
    static final String[] HEADERS = {
        "Authorization", "Bearer " + System.getenv("CLIENT_TOKEN"), "Accept", "application/json",
        "Accept-Encoding", "gzip", "X-Millrace-Compress-Watch", "1",
    };

    interface Lines {
        /** Returns the next line, or null at the end. */
        String next() throws IOException;
    }

    static SSLContext tls() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream in = Files.newInputStream(Path.of(System.getenv("CLIENT_CA")))) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        return tls;
    }

    /** Reads lines from arrays of bytes. An array holds what one read returns. */
    static Lines bytes(InputStream in) throws IOException {
        InputStream decoded = new GZIPInputStream(in);
        byte[] buffer = new byte[64 << 10];
        int[] at = new int[2];
        return () -> {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (;;) {
                for (int n = at[0]; n < at[1]; n++) {
                    if (buffer[n] == '\n') {
                        line.write(buffer, at[0], n - at[0]);
                        at[0] = n + 1;
                        return line.toString(StandardCharsets.UTF_8);
                    }
                }
                line.write(buffer, at[0], at[1] - at[0]);
                at[0] = 0;
                at[1] = decoded.read(buffer);
                if (at[1] < 0) {
                    return line.size() == 0 ? null : line + " without a newline";
                }
            }
        };
    }

    static Lines reader(InputStream in) throws IOException {
        return new BufferedReader(new InputStreamReader(new GZIPInputStream(in), StandardCharsets.UTF_8))::readLine;
    }

    static void wantGzip(String coding) {
        if (!"gzip".equals(coding)) {
            throw new AssertionError("Content-Encoding is " + coding);
        }
    }

    static InputStream open(String path, Version version) throws Exception {
        URI uri = URI.create(System.getenv("CLIENT_URL") + path);
        if (version == null) {
            HttpsURLConnection connection = (HttpsURLConnection) new URL(uri.toString()).openConnection();
            connection.setSSLSocketFactory(tls().getSocketFactory());
            for (int i = 0; i < HEADERS.length; i += 2) {
                connection.setRequestProperty(HEADERS[i], HEADERS[i + 1]);
            }
            wantGzip(connection.getContentEncoding());
            return connection.getInputStream();
        }
        HttpClient client = HttpClient.newBuilder().sslContext(tls()).version(version).build();
        HttpResponse<InputStream> response = client.send(HttpRequest.newBuilder(uri).headers(HEADERS).build(), BodyHandlers.ofInputStream());
        wantGzip(response.headers().firstValue("Content-Encoding").orElse(""));
        return response.body();
    }

    static Lines decoder(String kind, String path) throws Exception {
        switch (kind) {
        case "bytes":
            return bytes(open(path, Version.HTTP_2));
        case "bytes1":
            return bytes(open(path, Version.HTTP_1_1));
        case "urlconnection":
            return bytes(open(path, null));
        default:
            return reader(open(path, Version.HTTP_1_1));
        }
    }

    static void follow(String kind, String number, String path) {
        try {
            Lines lines = decoder(kind, path);
            for (String line; (line = lines.next()) != null;) {
                say(number, line);
            }
            say(number, "END");
        } catch (Throwable e) {
            say(number, ("END " + e).replace('\n', ' '));
        }
    }

    static synchronized void say(String number, String text) {
        System.out.println(number + "\t" + text);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null;) {
            String[] words = line.split(" ");
            Thread thread = new Thread(() -> follow(words[1], words[0], words[2]));
            thread.setDaemon(true);
            thread.start();
        }
        System.exit(0);
    }
}
