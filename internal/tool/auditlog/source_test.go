package auditlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// readEvents reads the events of a text. They are copies.
func readEvents(t *testing.T, text string, o Options) ([]Event, Counts) {
	t.Helper()
	return readInput(t, Input{Name: Stdin}, text, o)
}

func readInput(t *testing.T, in Input, stdin string, o Options) (events []Event, counts Counts) {
	t.Helper()
	counts, err := in.Read(context.Background(), strings.NewReader(stdin), o, func(e *Event) {
		c := *e
		c.AuditID, c.URI, c.Verb = bytes.Clone(e.AuditID), bytes.Clone(e.URI), bytes.Clone(e.Verb)
		events = append(events, c)
	}, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return events, counts
}

// event is an event with an ID.
func event(id string) string {
	return strings.Replace(sampleLine, "5c1a1c5e-1c9b-4d0a-9d51-0a6d1ec4f0a7", id, 1)
}

func ids(events []Event) string {
	var all []string
	for i := range events {
		all = append(all, string(events[i].AuditID))
	}
	return strings.Join(all, " ")
}

func compress(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsOfAnyLength(t *testing.T) {
	object := func(size int) string {
		return strings.Replace(sampleLine, `"annotations"`, `"responseObject":{"x":"`+strings.Repeat("x", size)+`"},"annotations"`, 1)
	}
	events, counts := readEvents(t, event("a")+"\r\n\n"+object(3<<20)+"\n"+object(maxRecord)+"\n"+event("b"), Options{})
	if len(events) != 3 || ids(events[2:]) != "b" || counts.LostRecords() != 1 || counts.Rest[0].Why != whyTooLong || counts.Rest[0].FirstLine != 4 || counts.Lines != 5 {
		t.Fatalf("got %d events, %+v", len(events), counts)
	}
	list := `{"kind":"EventList","items":[` + strings.Repeat(object(1000)+",", maxRecord/1000+10) + event("last") + `],"metadata":{}}`
	events, counts = readEvents(t, list+list, Options{})
	if len(events) != 2*(maxRecord/1000+11) || counts.Rest != nil {
		t.Fatalf("got %d events, %+v", len(events), counts)
	}
}

func TestRotatedLogsAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "audit.log"), []byte(event("3")+"\n"))
	write(t, filepath.Join(dir, "audit-2026-11-25T10-00-00.000.log.gz"), compress(t, event("1")+"\n"))
	write(t, filepath.Join(dir, "audit-2026-11-26T10-00-00.000.log"), []byte(event("2")))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	for _, paths := range [][]string{{dir}, files} {
		inputs, err := Expand(paths)
		if err != nil {
			t.Fatal(err)
		}
		var all []Event
		for _, in := range inputs {
			events, _ := readInput(t, in, "", Options{})
			all = append(all, events...)
		}
		if got := ids(all); got != "1 2 3" {
			t.Fatalf("got %s", got)
		}
	}
}

func TestLinksAmongLogs(t *testing.T) {
	dir := t.TempDir()
	real, link, elsewhere := filepath.Join(dir, "real"), filepath.Join(dir, "link"), filepath.Join(dir, "elsewhere.log")
	write(t, elsewhere, []byte("2\n"))
	if err := errors.Join(
		os.Mkdir(real, 0o700), os.Symlink(real, link), os.Symlink(elsewhere, filepath.Join(real, "b.log")), os.Symlink(dir, filepath.Join(real, "up")),
		os.Symlink(filepath.Join(dir, "gone"), filepath.Join(real, "dangling.log")), os.Symlink("itself", filepath.Join(real, "itself")),
		syscall.Mkfifo(filepath.Join(real, "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(real, "a.log"), []byte("1\n"))
	inputs, err := Expand([]string{link})
	if err != nil {
		t.Fatal(err)
	}
	if len(inputs) != 2 || inputs[0].Name != filepath.Join(link, "a.log") || inputs[1].Name != filepath.Join(link, "b.log") {
		t.Errorf("got %+v", inputs)
	}
	// A path that is named may be a pipe, as a shell's <(zcat x) is.
	if inputs, err := Expand([]string{filepath.Join(real, "pipe"), filepath.Join(real, "b.log")}); err != nil || len(inputs) != 2 {
		t.Errorf("got %+v, %v", inputs, err)
	}
	if _, err := Expand([]string{filepath.Join(real, "dangling.log")}); err == nil {
		t.Error("a dangling link that is named is no error")
	}
}

// TestPackedData reads compressed data: whole, in several parts, cut off, and with other data after
// it.
func TestPackedData(t *testing.T) {
	text := strings.Repeat(event("a")+"\n", 1000)
	packed := compress(t, text)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data  []byte
		whole bool
		want  int
	}{
		"gzip":           {packed, true, 1000},
		"two parts":      {append(slices.Clone(packed), packed...), true, 2000},
		"zstd":           {encoder.EncodeAll([]byte(text), nil), true, 1000},
		"cut off":        {packed[:len(packed)-len(packed)/3], false, 100},
		"more behind it": {append(slices.Clone(packed), "garbage that is long enough"...), false, 1000},
	} {
		file := filepath.Join(t.TempDir(), "log")
		write(t, file, c.data)
		events, counts := readInput(t, Input{Name: file}, "", Options{})
		if whole := counts.LostRecords() == 0; whole != c.whole || len(events) < c.want || whole && len(events) != c.want {
			t.Errorf("%s: got %d events, %+v", name, len(events), counts)
		}
	}
}

func TestExpandNamesWhatIsMissing(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := Expand([]string{path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
	}
}

func TestParseURI(t *testing.T) {
	for uri, want := range map[string]string{
		"/api/v1/pods?limit=500&resourceVersion=0":                   "|v1|pods||||cluster|0|500",
		"/api/v1/namespaces/a/pods?labelSelector=app%3Dx":            "|v1|pods|a|||namespace|unset|",
		"/api/v1/namespaces/a/pods/p/log?follow=true":                "|v1|pods|a|p|log|name|unset|",
		"/api/v1/namespaces/a":                                       "|v1|namespaces||a||name|unset|",
		"/api/v1/namespaces/a/finalize":                              "|v1|namespaces||a|finalize|name|unset|",
		"/api/v1/namespaces?resourceVersion=7":                       "|v1|namespaces||||cluster|at least|",
		"/apis/apps/v1/deployments?continue=abc&limit=5":             "apps|v1|deployments||||cluster|continue|5",
		"/apis/apps/v1/namespaces/a/deployments/d/scale":             "apps|v1|deployments|a|d|scale|name|unset|",
		"/api/v1/watch/pods?resourceVersion=5":                       "|v1|pods||||cluster|at least|",
		"/apis/apps/v1":                                              "|||||",
		"/healthz":                                                   "|||||",
		"/api/v1/nodes?resourceVersionMatch=Exact&resourceVersion=9": "|v1|nodes||||cluster|exact|",
	} {
		r := ParseURI([]byte(uri))
		parts := []string{string(r.Group), string(r.Version), string(r.Resource), string(r.Namespace), string(r.Name), string(r.Subresource)}
		if len(r.Resource) > 0 {
			parts = append(parts, r.Scope(), r.RevisionMode(), string(r.Limit))
		}
		if got := strings.Join(parts, "|"); got != want {
			t.Errorf("%s: got %s, want %s", uri, got, want)
		}
	}
}

func TestSelectors(t *testing.T) {
	got := Selectors("app%20in%20%28a%2Cb%29%2C%21x", "spec.nodeName%3Dn1%2Cstatus.phase%21%3DFailed", "shardRange%28object.metadata.uid%2C0%2C1%29")
	if want := "labels: app, x; fields: spec.nodeName, status.phase; shard: object.metadata.uid"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Selectors("a%zz", "==", ""); got != "" {
		t.Errorf("got %s of malformed selectors", got)
	}
}
