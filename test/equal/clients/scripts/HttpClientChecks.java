import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpClient.Version;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.GZIPInputStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Checks of Java's own HttpClient. It does not decode bodies, and uses one connection for HTTP/2. */
public class HttpClientChecks {
    static final String URL = System.getenv("CLIENT_URL");
    static final String TOKEN = System.getenv("CLIENT_TOKEN");
    static final String WEAK_TOKEN = System.getenv("CLIENT_WEAK_TOKEN");
    static final String NAMESPACE = System.getenv("CLIENT_NAMESPACE");
    static final String LISTS = System.getenv("CLIENT_LISTS");
    static final int REPEAT = Integer.parseInt(System.getenv("CLIENT_REPEAT"));
    static final String CONFIG_MAPS = "/api/v1/namespaces/" + NAMESPACE + "/configmaps";
    static final Duration PATIENCE = Duration.ofSeconds(8);
    static final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    interface Task {
        void run() throws Exception;
    }

    interface NumberedTask {
        void run(int number) throws Exception;
    }

    static void want(String what, Object got, Object wanted) {
        if (!got.equals(wanted)) {
            throw new AssertionError(what + " is " + got + ", want " + wanted);
        }
    }

    /** Runs a check for at most a minute, prints its result, and returns whether it passed. */
    static boolean report(String check, Task task) {
        String line = "{\"check\":" + quote(check);
        boolean passed = false;
        Future<?> future = threads.submit(() -> {
            task.run();
            return null;
        });
        try {
            future.get(60, TimeUnit.SECONDS);
            passed = true;
        } catch (ExecutionException e) {
            String why = e.getCause().toString();
            for (Throwable cause = e.getCause().getCause(); cause != null; cause = cause.getCause()) {
                why += ": " + cause;
            }
            line += ",\"error\":" + quote(why);
        } catch (Exception e) {
            line += ",\"error\":" + quote("not done after a minute: " + e);
        }
        System.out.println(line + "}");
        return passed;
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\');
            }
            quoted.append(c < ' ' ? ' ' : c);
        }
        return quoted.append('"').toString();
    }

    static void many(int count, NumberedTask task) throws Exception {
        for (int n = 1; n <= count; n++) {
            try {
                task.run(n);
            } catch (Exception | AssertionError e) {
                throw new AssertionError("number " + n + " of " + count + " failed: " + e, e);
            }
        }
    }

    static void atOnce(int count, NumberedTask task) throws Exception {
        List<Future<?>> all = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            int number = n;
            all.add(threads.submit(() -> {
                task.run(number);
                return null;
            }));
        }
        List<Throwable> failures = new ArrayList<>();
        for (Future<?> one : all) {
            try {
                one.get(60, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                failures.add(e.getCause());
            }
        }
        if (!failures.isEmpty()) {
            throw new AssertionError(failures.size() + " of " + count + " failed, the first: " + failures.get(0));
        }
    }

    /** A client for one version of HTTP. */
    static class Client {
        final HttpClient http;
        final Version version;
        final String name;

        Client(Version version) throws Exception {
            this.version = version;
            name = version == Version.HTTP_2 ? "HTTP/2" : "HTTP/1.1";
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            try (InputStream in = Files.newInputStream(Path.of(System.getenv("CLIENT_CA")))) {
                store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext tls = SSLContext.getInstance("TLS");
            tls.init(null, trust.getTrustManagers(), null);
            http = HttpClient.newBuilder().sslContext(tls).version(version).connectTimeout(PATIENCE).build();
        }

        <T> HttpResponse<T> send(HttpResponse.BodyHandler<T> handler, String method, String path, String token, byte[] body, String... headers) throws Exception {
            HttpRequest.BodyPublisher publisher = body == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(body);
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(URL + path)).timeout(PATIENCE)
                .method(method, publisher).header("Authorization", "Bearer " + token);
            if (headers.length > 0) {
                request.headers(headers);
            }
            HttpResponse<T> response = http.send(request.build(), handler);
            want("version", response.version(), version);
            return response;
        }

        HttpResponse<byte[]> ask(String method, String path, byte[] body, String... headers) throws Exception {
            return send(BodyHandlers.ofByteArray(), method, path, TOKEN, body, headers);
        }

        Events watch(String path, String... headers) throws Exception {
            // The server compresses other watches than watch-lists only for this header.
            String[] all = Arrays.copyOf(headers, headers.length + 2);
            all[headers.length] = "X-Millrace-Compress-Watch";
            all[headers.length + 1] = "1";
            return new Events(send(BodyHandlers.ofInputStream(), "GET", path, TOKEN, null, all));
        }
    }

    /** The events of a watch. Each is a line of JSON. */
    static class Events implements AutoCloseable {
        final int status;
        final String coding;
        final InputStream in;
        final InputStream decoded;
        final byte[] buffer = new byte[64 << 10];
        int begin;
        int end;

        Events(HttpResponse<InputStream> response) throws IOException {
            status = response.statusCode();
            coding = response.headers().firstValue("Content-Encoding").orElse("");
            in = response.body();
            decoded = coding.equals("gzip") ? new GZIPInputStream(in) : in;
        }

        /** Reads a line. An InputStreamReader would wait for bytes after the line. */
        String next() throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (;;) {
                for (int n = begin; n < end; n++) {
                    if (buffer[n] == '\n') {
                        line.write(buffer, begin, n - begin);
                        begin = n + 1;
                        return line.toString(StandardCharsets.UTF_8);
                    }
                }
                line.write(buffer, begin, end - begin);
                begin = 0;
                end = Math.max(0, decoded.read(buffer));
                if (end == 0) {
                    want("bytes behind the last event", line.size(), 0);
                    return null;
                }
            }
        }

        void awaitText(String text) throws IOException {
            for (String event; (event = next()) != null;) {
                if (event.contains("\"text\":\"" + text + "\"")) {
                    return;
                }
            }
            throw new AssertionError("watch ended before " + text + " came");
        }

        void end() throws IOException {
            while (next() != null) {
            }
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }

    static void create(Client client, String path, String object) throws Exception {
        HttpResponse<byte[]> answer = client.ask("POST", path, object.getBytes(), "Content-Type", "application/json");
        if (!List.of(200, 201, 409).contains(answer.statusCode())) {
            throw new AssertionError("create in " + path + ": " + answer.statusCode() + " " + new String(answer.body()));
        }
    }

    static void createMap(Client client, String name) throws Exception {
        create(client, CONFIG_MAPS, "{\"metadata\":{\"name\":\"" + name + "\"},\"data\":{\"text\":\"first\"}}");
    }

    static void patch(Client client, String name, String text) throws Exception {
        byte[] body = ("{\"data\":{\"text\":\"" + text + "\"}}").getBytes();
        want("status of PATCH", client.ask("PATCH", CONFIG_MAPS + "/" + name, body, "Content-Type", "application/merge-patch+json").statusCode(), 200);
    }

    record Early(int status, String method, String path, String type, String token) {
        void ask(Client client, int size) throws Exception {
            byte[] body = new byte[size];
            Arrays.fill(body, (byte) ' ');
            HttpResponse<byte[]> answer = client.send(BodyHandlers.ofByteArray(), method, path, token, body, "Content-Type", type);
            want("status", answer.statusCode(), status);
            want("answer has a body", answer.body().length > 0, true);
            if (answer.headers().firstValue("Content-Type").orElse("").contains("json")) {
                want("the body has the code", new String(answer.body()).contains("\"code\":" + status), true);
            }
        }
    }

    static final int[] EARLY_SIZES = {2, 400 << 10, 2 << 20};
    static final int[] EARLY_COUNTS = {20, 5, 3};
    static final String[] EARLY_NAMES = {"2 bytes", "400 KB", "2 MB"};

    static void early() throws Exception {
        Early unauthorized = new Early(401, "POST", CONFIG_MAPS, "application/json", "nobody");
        for (Version version : Version.values()) {
            Client client = new Client(version);
            earlyOf(client);
            // These answers close the connection, which some clients cannot handle.
            for (int n = 0; n < EARLY_SIZES.length; n++) {
                int size = EARLY_SIZES[n];
                int count = EARLY_COUNTS[n] * REPEAT;
                report("401, " + EARLY_NAMES[n] + ", " + client.name, () -> many(count, m -> unauthorized.ask(client, size)));
            }
        }
    }

    /** Stops at the first failure: each further one may take the whole patience. */
    static void earlyOf(Client client) {
        List<Early> cases = List.of(
            new Early(405, "POST", CONFIG_MAPS + "/x", "application/json", TOKEN),
            new Early(403, "POST", CONFIG_MAPS, "application/json", WEAK_TOKEN),
            new Early(404, "POST", "/apis/none.example.com/v1/things", "application/json", TOKEN),
            new Early(415, "PATCH", CONFIG_MAPS + "/x", "text/plain", TOKEN));
        for (int n = 0; n < EARLY_SIZES.length; n++) {
            int size = EARLY_SIZES[n];
            int count = EARLY_COUNTS[n] * REPEAT;
            for (Early one : cases) {
                if (!report(one.status() + ", " + EARLY_NAMES[n] + ", " + client.name, () -> many(count, m -> one.ask(client, size)))) {
                    return;
                }
            }
        }
        Early large = new Early(413, "POST", CONFIG_MAPS, "application/json", TOKEN);
        if (report("413, 4 MB, " + client.name, () -> many(2 * REPEAT, m -> large.ask(client, 4 << 20)))) {
            report("405, 2 MB, ten at once, " + client.name, () -> atOnce(10, m -> cases.get(0).ask(client, 2 << 20)));
        }
    }

    static String watchPath(String name, String more) {
        return CONFIG_MAPS + "?watch=1&fieldSelector=metadata.name%3D" + name + "&resourceVersion=0&" + more;
    }

    static String[] accept(String codings) {
        return codings == null ? new String[0] : new String[] {"Accept-Encoding", codings};
    }

    static void watchCodings(Client client, String accepted, String coding) throws Exception {
        try (Events events = client.watch(watchPath("watched", "timeoutSeconds=30"), accept(accepted))) {
            want("status", events.status, 200);
            want("Content-Encoding", events.coding, coding);
            events.awaitText("first");
            many(5, n -> {
                patch(client, "watched", "event " + n);
                events.awaitText("event " + n);
            });
            patch(client, "watched", "first");
        }
    }

    static void endByTimeout(Client client, String name, String coding) throws Exception {
        try (Events events = client.watch(watchPath(name, "timeoutSeconds=1"), accept(coding))) {
            events.awaitText("first");
            events.end();
        }
    }

    static void endByDeletion(Client client, String kind, String coding) throws Exception {
        String group = NAMESPACE + ".example.com";
        String plural = kind.toLowerCase() + "s";
        String definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        create(client, definitions, ("{'metadata':{'name':'" + plural + "." + group + "'},'spec':{'group':'" + group
            + "','scope':'Namespaced','names':{'kind':'" + kind + "','plural':'" + plural + "'},'versions':[{'name':'v1','served':true,"
            + "'storage':true,'schema':{'openAPIV3Schema':{'type':'object','x-kubernetes-preserve-unknown-fields':true}}}]}}").replace('\'', '"'));
        String path = "/apis/" + group + "/v1/namespaces/" + NAMESPACE + "/" + plural;
        while (client.ask("GET", path, null).statusCode() != 200) {
            Thread.sleep(50);
        }
        create(client, path, ("{'apiVersion':'" + group + "/v1','kind':'" + kind + "','metadata':{'name':'one'}}").replace('\'', '"'));
        try (Events events = client.watch(path + "?watch=1&resourceVersion=0&timeoutSeconds=60", accept(coding))) {
            want("first event is ADDED", events.next().startsWith("{\"type\":\"ADDED\""), true);
            want("status of DELETE", client.ask("DELETE", definitions + "/" + plural + "." + group, null).statusCode(), 200);
            want("second event is DELETED", events.next().startsWith("{\"type\":\"DELETED\""), true);
            events.end();
        }
    }

    static void watch() throws Exception {
        String[][] forms = {{"gzip", "gzip"}, {"identity", ""}, {"gzip;q=0", ""}, {"x-gzip", ""}, {"notgzip", ""}, {"identity;q=1, gzip;q=0", ""}, {null, ""}};
        for (Version version : Version.values()) {
            Client client = new Client(version);
            createMap(client, "watched");
            for (String[] form : forms) {
                String accepted = form[0] == null ? "by default" : form[0];
                report("events, Accept-Encoding " + accepted + ", " + client.name, () -> watchCodings(client, form[0], form[1]));
            }
            for (String coding : List.of("gzip", "identity")) {
                report("end by timeoutSeconds, Accept-Encoding " + coding + ", " + client.name, () -> endByTimeout(client, "watched", coding));
            }
        }
        for (String coding : List.of("gzip", "identity")) {
            report("end by deletion of the definition, Accept-Encoding " + coding,
                () -> endByDeletion(new Client(Version.HTTP_2), "Kind" + coding, coding));
        }
    }

    /** Removes the version of the list itself, which changes with every write. */
    static String steady(byte[] body) {
        return new String(body, StandardCharsets.ISO_8859_1).replaceFirst("(\"metadata\":\\{\"resourceVersion\":\")\\d+", "$1")
            .replaceFirst("\"continue\":\"[^\"]*\"", "");
    }

    static void lists() throws Exception {
        String[][] paths = {{"500 KB", "?limit=100"}, {"3 MB", ""}, {"one object of 900 KB", "/large"}};
        for (Version version : Version.values()) {
            Client client = new Client(version);
            for (String[] path : paths) {
                byte[] identity = client.ask("GET", LISTS + path[1], null, "Accept-Encoding", "identity").body();
                for (String coding : new String[] {"gzip", null}) {
                    String accepted = coding == null ? "by default" : coding;
                    report(path[0] + ", Accept-Encoding " + accepted + ", " + client.name, () -> {
                        HttpResponse<byte[]> answer = client.ask("GET", LISTS + path[1], null, accept(coding));
                        want("Content-Encoding", answer.headers().firstValue("Content-Encoding").orElse(""), coding == null ? "" : coding);
                        byte[] body = answer.body();
                        if (coding != null) {
                            body = new GZIPInputStream(new ByteArrayInputStream(body)).readAllBytes();
                        }
                        want("body equals the identity one", steady(body).equals(steady(identity)), true);
                    });
                }
            }
        }
    }

    static void streams() throws Exception {
        Client client = new Client(Version.HTTP_2);
        Client writer = new Client(Version.HTTP_2);
        createMap(writer, "streams");
        report("120 watches", () -> {
            CountDownLatch begun = new CountDownLatch(100);
            Future<?> change = threads.submit(() -> {
                want("100 watches begin in time", begun.await(30, TimeUnit.SECONDS), true);
                patch(writer, "streams", "last");
                return null;
            });
            atOnce(120, n -> {
                try (Events events = client.watch(watchPath("streams", "timeoutSeconds=10"))) {
                    String event = events.next();
                    begun.countDown();
                    while (event != null && !event.contains("\"text\":\"last\"")) {
                        event = events.next();
                    }
                    want("watch has seen the last change", event != null, true);
                    events.end();
                }
            });
            change.get();
        });
    }

    static void gone() throws Exception {
        for (Version version : Version.values()) {
            Client client = new Client(version);
            report("list of an old version, " + client.name, () -> {
                HttpResponse<byte[]> answer = client.ask("GET", CONFIG_MAPS + "?resourceVersion=5&resourceVersionMatch=Exact&limit=10", null);
                want("status", answer.statusCode(), 410);
                want("reason is Expired", new String(answer.body()).contains("\"reason\":\"Expired\""), true);
            });
            report("watch from an old version, " + client.name, () -> {
                try (Events events = client.watch(CONFIG_MAPS + "?watch=1&resourceVersion=5&timeoutSeconds=30")) {
                    want("status", events.status, 200);
                    String event = events.next();
                    want("event is an error with code 410: " + event, event.startsWith("{\"type\":\"ERROR\"") && event.contains("\"code\":410"), true);
                    want("watch has ended", events.next() == null, true);
                }
            });
        }
    }

    static void goaway() throws Exception {
        Client client = new Client(Version.HTTP_2);
        createMap(client, "goaway");
        NumberedTask get = n -> want("status", client.ask("GET", CONFIG_MAPS + "/goaway", null).statusCode(), 200);
        report("GET, one after the other", () -> many(100 * REPEAT, get));
        report("GET, ten at once", () -> atOnce(10, n -> many(30 * REPEAT, get)));
        report("PATCH, ten at once", () -> atOnce(10, n -> many(10 * REPEAT, m -> patch(client, "goaway", n + " " + m))));
        patch(client, "goaway", "first");
        report("ten watches to their end", () -> atOnce(10, n -> endByTimeout(client, "goaway", "identity")));
    }

    static void restart() throws Exception {
        Client client = new Client(Version.HTTP_2);
        createMap(client, "restart");
        List<String> codings = List.of("gzip", "identity");
        List<Events> opened = new ArrayList<>();
        for (String coding : codings) {
            Events events = client.watch(watchPath("restart", "timeoutSeconds=60"), accept(coding));
            events.awaitText("first");
            opened.add(events);
        }
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger count = new AtomicInteger();
        List<String> failures = new ArrayList<>();
        Future<?> asking = threads.submit(() -> {
            atOnce(4, n -> {
                for (; !stop.get(); count.incrementAndGet()) {
                    try {
                        HttpResponse<byte[]> answer = client.ask("GET", CONFIG_MAPS + "/restart", null);
                        // A server that ends may answer 503 with Retry-After.
                        if (answer.statusCode() != 503 || answer.headers().firstValue("Retry-After").isEmpty()) {
                            want("status", answer.statusCode(), 200);
                        }
                    } catch (Exception | AssertionError e) {
                        synchronized (failures) {
                            failures.add(e.toString());
                        }
                    }
                    Thread.sleep(20);
                }
            });
            return null;
        });
        System.out.println("{\"ready\":true}");
        for (int n = 0; n < codings.size(); n++) {
            Events events = opened.get(n);
            report("watch ends, Accept-Encoding " + codings.get(n), events::end);
        }
        System.in.read();
        stop.set(true);
        asking.get();
        report("requests", () -> {
            want("number of requests is above 50", count.get() > 50, true);
            if (!failures.isEmpty()) {
                throw new AssertionError(failures.size() + " of " + count + " failed, the first: " + failures.get(0));
            }
        });
    }

    public static void main(String[] arguments) throws Exception {
        Callable<Void> run = () -> {
            switch (arguments[0]) {
                case "early" -> early();
                case "watch" -> watch();
                case "lists" -> lists();
                case "streams" -> streams();
                case "gone" -> gone();
                case "goaway" -> goaway();
                case "restart" -> restart();
                default -> throw new IllegalArgumentException(arguments[0]);
            }
            return null;
        };
        run.call();
        System.exit(0);
    }
}
