package slo

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/tier/read"
)

// receivedCounts holds the events and bytes that a client received from a watch.
type receivedCounts struct {
	events, bytes int
}

func (r *receivedCounts) add(other receivedCounts) {
	r.events += other.events
	r.bytes += other.bytes
}

// countingReader counts the bytes read from a reader.
type countingReader struct {
	from io.Reader
	n    int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += n
	return n, err
}

// watchVariant is one kind of watch request. Each variant has its own user agent.
type watchVariant struct {
	agent, path, accept string
	http1, gzip         bool
	read                func(io.Reader) (int, error)
}

// The server's own watches are also counted. It does not watch these two resources.
const (
	templates = "/api/v1/namespaces/default/podtemplates"
	secrets   = "/api/v1/secrets"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// watchVariants returns all variants. Their watches last one to three seconds, so
// that some end while the test is still writing.
func watchVariants() []watchVariant {
	return []watchVariant{
		{agent: "plain", path: templates + "?watch=1&timeoutSeconds=3", accept: "application/json", read: jsonEvents},
		{agent: "gzipped", path: templates + "?watch=1&timeoutSeconds=3", accept: "application/json", gzip: true, read: jsonEvents},
		{agent: "short", path: templates + "?watch=1&timeoutSeconds=1", accept: "application/json", gzip: true, read: jsonEvents},
		{agent: "old", path: templates + "?watch=1&timeoutSeconds=3", accept: "application/json", http1: true, read: jsonEvents},
		{agent: "old-gzipped", path: templates + "?watch=1&timeoutSeconds=2", accept: "application/json", http1: true, gzip: true, read: jsonEvents},
		{agent: "selecting", path: templates + "?watch=1&timeoutSeconds=3&labelSelector=app%3Da", accept: "application/json", read: jsonEvents},
		{agent: "selecting-old", path: templates + "?watch=1&timeoutSeconds=3&labelSelector=app+in+(a,b)", accept: "application/json", http1: true, gzip: true, read: jsonEvents},
		{agent: "one", path: templates + "?watch=1&timeoutSeconds=3&fieldSelector=metadata.name%3Dm-1", accept: "application/json", read: jsonEvents},
		{agent: "bookmarks", path: templates + "?watch=1&timeoutSeconds=2&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", accept: "application/json", gzip: true, read: jsonEvents},
		{agent: "protobuf", path: templates + "?watch=1&timeoutSeconds=3", accept: protobuf, read: protobufEvents},
		{agent: "protobuf-old", path: secrets + "?watch=1&timeoutSeconds=3", accept: protobuf, http1: true, gzip: true, read: protobufEvents},
		{agent: "table", path: secrets + "?watch=1&timeoutSeconds=3", accept: "application/json;as=Table;v=v1;g=meta.k8s.io", read: jsonEvents},
		{agent: "metadata", path: secrets + "?watch=1&timeoutSeconds=2", accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", gzip: true, read: jsonEvents},
	}
}

// resource returns the resource that the variant watches.
func (w *watchVariant) resource() string {
	if strings.HasPrefix(w.path, secrets) {
		return "secrets"
	}
	return "podtemplates"
}

// jsonEvents reads JSON frames to the end of r and counts those that are not
// bookmarks.
func jsonEvents(r io.Reader) (n int, err error) {
	decoder := json.NewDecoder(r)
	for {
		var event struct{ Type string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, fmt.Errorf("read frame: %w", err)
		}
		switch event.Type {
		case "ADDED", "MODIFIED", "DELETED":
			n++
		case "BOOKMARK":
		default:
			return n, fmt.Errorf("an event of type %q", event.Type)
		}
	}
}

// protobufEvents reads length-prefixed frames to the end of r and counts them.
func protobufEvents(r io.Reader) (n int, err error) {
	for {
		var length uint32
		if err := binary.Read(r, binary.BigEndian, &length); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, fmt.Errorf("read length: %w", err)
		}
		if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
			return n, fmt.Errorf("read frame: %w", err)
		}
		n++
	}
}

// receive reads a watch to its end. The bytes are counted before they are unzipped.
func (w *watchVariant) receive(body io.Reader) (receivedCounts, error) {
	raw := &countingReader{from: body}
	var plain io.Reader = raw
	if w.gzip {
		unzipped, err := gzip.NewReader(raw)
		if err != nil {
			return receivedCounts{}, fmt.Errorf("begin gzip: %w", err)
		}
		plain = unzipped
	}
	n, err := w.read(plain)
	if _, rest := io.Copy(io.Discard, raw); err == nil {
		err = rest
	}
	return receivedCounts{n, raw.n}, err
}

// TestSums compares the events and bytes that clients received with those that the
// reports and metrics count as delivered.
func TestSums(t *testing.T) {
	d := newTestServer(t)
	for i := range 20 {
		d.change(i)
	}
	var readers sync.WaitGroup
	var mu sync.Mutex
	byClient, byResource := map[string]receivedCounts{}, map[string]receivedCounts{}
	newer, older := d.http2(1<<20), d.http1()
	for _, w := range watchVariants() {
		client, coding := newer, "identity"
		if w.http1 {
			client = older
		}
		if w.gzip {
			coding = "gzip"
		}
		resp := d.ask(client, w.agent, w.path, "Accept", w.accept, "Accept-Encoding", coding, read.CompressWatchHeader, "1")
		if major := resp.ProtoMajor; (major == 1) != w.http1 || (resp.Header.Get("Content-Encoding") == "gzip") != w.gzip {
			t.Fatalf("%s is served otherwise: %s, %v", w.agent, resp.Proto, resp.Header)
		}
		readers.Go(func() {
			got, err := w.receive(resp.Body)
			if err != nil || got.events == 0 {
				t.Errorf("%s received %+v: %v", w.agent, got, err)
			}
			mu.Lock()
			defer mu.Unlock()
			byClient[w.agent] = got
			sum := byResource[w.resource()]
			sum.add(got)
			byResource[w.resource()] = sum
		})
	}
	done := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() { d.churn(done) })
	readers.Wait()
	close(done)
	writers.Wait()
	d.until(func(r *serverReports) error { return r.checkSums(byClient, byResource) })
}

// churn changes objects until done is closed.
func (d *testServer) churn(done <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
			d.change(i)
		}
	}
}

// change creates, changes or deletes a pod template and a secret.
func (d *testServer) change(i int) {
	pods, secrets := d.client.CoreV1().PodTemplates("default"), d.client.CoreV1().Secrets("default")
	ctx := d.t.Context()
	meta := metav1.ObjectMeta{Name: fmt.Sprint("m-", 1+i%30), Labels: map[string]string{"app": string(rune('a' + i%3))}}
	pod := corev1.PodTemplate{ObjectMeta: meta}
	pod.Template.Labels = meta.Labels
	pod.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: fmt.Sprint("image:", i)}}
	secret := corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"i": fmt.Sprint(i)}}
	var errs [2]error
	if i%7 == 5 {
		errs[0], errs[1] = pods.Delete(ctx, meta.Name, metav1.DeleteOptions{}), secrets.Delete(ctx, meta.Name, metav1.DeleteOptions{})
	} else {
		if _, errs[0] = pods.Update(ctx, &pod, metav1.UpdateOptions{}); apierrors.IsNotFound(errs[0]) {
			_, errs[0] = pods.Create(ctx, &pod, metav1.CreateOptions{})
		}
		if _, errs[1] = secrets.Update(ctx, &secret, metav1.UpdateOptions{}); apierrors.IsNotFound(errs[1]) {
			_, errs[1] = secrets.Create(ctx, &secret, metav1.CreateOptions{})
		}
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) {
			d.t.Errorf("change: %v", err)
		}
	}
}

// checkSums compares the counts of every report and metric with the received ones.
func (r *serverReports) checkSums(byClient, byResource map[string]receivedCounts) error {
	told := map[string]receivedCounts{}
	for _, c := range r.slo.Clients {
		if _, ours := byClient[c.UserAgent]; ours {
			told[c.UserAgent] = receivedCounts{int(c.Events), int(c.Bytes)}
		}
	}
	if !maps.Equal(told, byClient) {
		for agent, got := range told {
			if got != byClient[agent] {
				return fmt.Errorf("%s was sent %+v, and received %+v", agent, got, byClient[agent])
			}
		}
		return fmt.Errorf("by client %+v, received were %+v", told, byClient)
	}
	for resource, want := range byResource {
		got := receivedCounts{
			int(r.metrics[fmt.Sprintf("millrace_watch_delivered_events_total{resource=%q}", resource)]),
			int(r.metrics[fmt.Sprintf("millrace_watch_delivered_bytes_total{resource=%q}", resource)]),
		}
		if got != want {
			return fmt.Errorf("metrics of %s say %+v, received were %+v", resource, got, want)
		}
	}
	clear(told)
	for _, s := range r.slo.Resources {
		if _, watched := byResource[s.Resource]; watched {
			told[s.Resource] = receivedCounts{int(s.Events), int(s.Bytes)}
		}
	}
	if !maps.Equal(told, byResource) {
		return fmt.Errorf("by resource %+v, received were %+v", told, byResource)
	}
	subscribed, wanted := 0, 0
	for _, s := range r.slo.Subscriptions {
		if _, watched := byResource[s.Resource]; watched {
			subscribed += int(s.Events)
		}
	}
	for _, want := range byResource {
		wanted += want.events
	}
	if subscribed != wanted {
		return fmt.Errorf("by subscription %d events, received were %d", subscribed, wanted)
	}
	// The totals also include events that were sent to the server's own watches.
	var all receivedCounts
	for name, value := range r.metrics {
		switch {
		case strings.HasPrefix(name, "millrace_watch_delivered_events_total{"):
			all.events += int(value)
		case strings.HasPrefix(name, "millrace_watch_delivered_bytes_total{"):
			all.bytes += int(value)
		}
	}
	if got := (receivedCounts{int(r.slo.All.Events), int(r.slo.All.Bytes)}); got != all {
		return fmt.Errorf("the report's totals are %+v, the sums of the metrics %+v", got, all)
	}
	if got := (receivedCounts{int(r.watchers.Events), int(r.watchers.Bytes)}); got != all {
		return fmt.Errorf("watchers say %+v, the sum of the metrics %+v", got, all)
	}
	return nil
}
