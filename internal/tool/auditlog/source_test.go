package auditlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func readAll(t *testing.T, in Input, stdin string) ([]string, Counts) {
	t.Helper()
	var lines []string
	counts, err := in.Read(context.Background(), strings.NewReader(stdin), func(line []byte) { lines = append(lines, string(line)) }, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return lines, counts
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

func TestReadLinesOfAnyLength(t *testing.T) {
	long, tooLong := strings.Repeat("x", 3<<20), strings.Repeat("y", maxLine+5)
	lines, counts := readAll(t, Input{Name: Stdin}, "a\r\n\n"+long+"\n"+tooLong+"\nb")
	if len(lines) != 3 || lines[0] != "a" || lines[1] != long || lines[2] != "b" || counts.LongLines != 1 || counts.Lines != 3 {
		t.Fatalf("got %d lines, %+v", len(lines), counts)
	}
}

func TestRotatedLogsAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "audit.log"), []byte("3\n"))
	write(t, filepath.Join(dir, "audit-2026-11-25T10-00-00.000.log.gz"), compress(t, "1\n"))
	write(t, filepath.Join(dir, "audit-2026-11-26T10-00-00.000.log"), []byte("2"))
	inputs, err := Expand([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, in := range inputs {
		lines, _ := readAll(t, in, "")
		all = append(all, lines...)
	}
	if got := strings.Join(all, ""); got != "123" {
		t.Fatalf("got %s", got)
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
	// What is named is read, also a pipe, as a shell's <(zcat x) is.
	if inputs, err := Expand([]string{filepath.Join(real, "pipe"), filepath.Join(real, "b.log")}); err != nil || len(inputs) != 2 {
		t.Errorf("got %+v, %v", inputs, err)
	}
	if _, err := Expand([]string{filepath.Join(real, "dangling.log")}); err == nil {
		t.Error("a dangling link that is named is no error")
	}
}

func TestCutOffGzip(t *testing.T) {
	data := compress(t, strings.Repeat("some line that is long enough\n", 10000))
	name := filepath.Join(t.TempDir(), "a.gz")
	write(t, name, data[:len(data)-len(data)/3])
	lines, counts := readAll(t, Input{Name: name}, "")
	if !counts.CutOff || len(lines) == 0 {
		t.Fatalf("got %d lines, %+v", len(lines), counts)
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
