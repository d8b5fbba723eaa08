package analyze

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace/millrace/internal/tool/auditlog"
)

// writeParts writes a log to n compressed files of a new directory, each with whole lines.
func writeParts(t *testing.T, log []byte, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	lines := bytes.SplitAfter(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	for i := range n {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(bytes.Join(lines[i*len(lines)/n:(i+1)*len(lines)/n], nil))
		if err := errors.Join(err, w.Close(), os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.gz", i)), packed.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// cutFile cuts a file to a number of bytes.
func cutFile(t *testing.T, file string, size int64) {
	t.Helper()
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
}

// TestManyInputs has more inputs than a report names. The last one is cut off.
func TestManyInputs(t *testing.T) {
	const files = 150
	dir := writeParts(t, smallLog(), files)
	page := filepath.Join(t.TempDir(), "report.html")
	out, stderr, err := execute(t, dir, "--report="+page)
	html, readErr := os.ReadFile(page)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stderr, "183 events of 150 inputs") {
		t.Errorf("the sums of all inputs are not in %s", stderr)
	}
	for name, text := range map[string]string{"text": out, "page": string(html)} {
		if n := strings.Count(text, ".gz"); n > 10 {
			t.Errorf("the %s names %d files", name, n)
		}
	}
	for i := range files {
		cutFile(t, filepath.Join(dir, fmt.Sprintf("%06d.gz", i)), 60)
	}
	for _, kept := range []int{files - 1, 0} {
		out, _, err = execute(t, writeCut(t, files, kept))
		if lost := (*auditlog.LostError)(nil); !errors.As(err, &lost) || lost.ExitCode() != 3 || !strings.Contains(err.Error(), " 1 record ") {
			t.Errorf("file %d is cut off: %v in\n%s", kept, err, out)
		}
	}
	if out, _, err := execute(t, dir, filepath.Join(writeParts(t, smallLog(), 1), "000000.gz")); err == nil || strings.Count(out, ": lost: ") != 10 || !strings.Contains(out, "140 more notes on lost records") {
		t.Errorf("%v in\n%s", err, out)
	}
}

// The page folds notes on inputs. Findings are numbered and come before the charts, whose bars have
// the names of clients in full.
func TestOrderOfThePage(t *testing.T) {
	log := smallLog()
	log = append(bytes.ReplaceAll(log, []byte(`"username":"`), []byte(`"username":"a-long-name-of-a-user-at-the-beginning-`)), "hello\n"...)
	page := shown(t, log)["page"]
	page = page[strings.Index(page, "<h1>"):]
	order := []string{"Repair first:", "<h2>Findings", "1. <span", "<h2>CPU by client", "<h2>How this was made", "<details><summary>The inputs", "no events, and left out: "}
	for i := range order[1:] {
		if a, b := strings.Index(page, order[i]), strings.Index(page, order[i+1]); a < 0 || b < a {
			t.Errorf("%q does not come before %q in\n%s", order[i], order[i+1], page)
		}
	}
	const name = "secret-agent (a-long-name-of-a-user-at-the-beginning-system:serviceaccount:agents:secret-agent)"
	if strings.Count(page, `title="`+name+`"`) != 1 || strings.Count(page, `aria-label="`+name+`: `) != 1 {
		t.Errorf("a bar lacks %q in\n%s", name, page)
	}
}

// writeCut writes smallLog to a number of files, and cuts one of them.
func writeCut(t *testing.T, files, number int) (dir string) {
	dir = writeParts(t, smallLog(), files)
	cutFile(t, filepath.Join(dir, fmt.Sprintf("%06d.gz", number)), 100)
	return dir
}

// A file that ends within the header of its compression is lost, like any that is cut off. Each is
// one lost record.
func TestCutOffFiles(t *testing.T) {
	for _, size := range []int64{2, 3, 10, 12, 100} {
		dir := writeParts(t, smallLog(), 3)
		cutFile(t, filepath.Join(dir, "000001.gz"), size)
		out, _, err := execute(t, dir)
		lost := (*auditlog.LostError)(nil)
		if !errors.As(err, &lost) || !strings.Contains(err.Error(), " 1 record ") || strings.Count(out, ": lost: ") != 1 {
			t.Errorf("%d bytes: %v", size, err)
		}
		if !strings.Contains(out, "000001.gz: lost: compressed data that is cut off or broken: all from line") || !strings.Contains(out, "Copy the file again.") {
			t.Errorf("%d bytes: got\n%s", size, out)
		}
	}
}

// shuffledLog has reads that are under way at the same time, and instances that renew Leases before
// they start, and start again.
func shuffledLog() []byte {
	w := newLog()
	for i := range 20 {
		who := daemon("agent", i)
		at := time.Duration(i) * time.Minute
		w.informer(who, "/api/v1/pods", "", at)
		w.informer(who, "/api/v1/pods", "", at+35*time.Minute)
		w.every(10*time.Second, func(at time.Duration) {
			w.add(who, "update", "/apis/coordination.k8s.io/v1/namespaces/agents/leases/"+who.pod, at, time.Millisecond, 200)
		})
		w.every(time.Minute, func(at time.Duration) {
			w.add(who, "list", "/api/v1/nodes", at+time.Duration(i)*time.Millisecond, time.Second, 200)
		})
	}
	return w.bytes()
}

// TestOrderOfEventsDoesNotMatter reads the same events sorted by time, in the streams of three
// servers one after the other, backwards, and at random. Only the inputs differ.
func TestOrderOfEventsDoesNotMatter(t *testing.T) {
	report := func(lines [][]byte) (string, *Report) {
		r := runAnalysis(t, append(bytes.Join(lines, []byte("\n")), '\n'))
		r.Run = Run{}
		encoded, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(encoded), r
	}
	sorted := bytes.Split(bytes.TrimSpace(shuffledLog()), []byte("\n"))
	want, r := report(sorted)
	if r.Replica.Shared == 0 || len(r.Starts) != 1 || r.Starts[0].StartCount != 20 {
		t.Fatalf("the log tests nothing: %+v, %+v", r.Replica, r.Starts)
	}
	var streams [][]byte
	for server := range 3 {
		for i := server; i < len(sorted); i += 3 {
			streams = append(streams, sorted[i])
		}
	}
	backwards := slices.Clone(sorted)
	slices.Reverse(backwards)
	random := slices.Clone(sorted)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
	for name, lines := range map[string][][]byte{"streams": streams, "backwards": backwards, "random": random} {
		if got, _ := report(lines); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestSamplesDoNotDependOnOrder has more instances and reads than are kept.
func TestSamplesDoNotDependOnOrder(t *testing.T) {
	count := func(backwards bool) (starts, atStart uint64, f Forecast) {
		c := newCollector()
		const instances = 200_000
		for i := range instances {
			if backwards {
				i = instances - 1 - i
			}
			e := &auditlog.Event{Stage: []byte(auditlog.StageComplete), Verb: []byte("list"), User: []byte("fleet"), Address: fmt.Appendf(nil, "10.%d", i), Code: 200}
			e.Received = int64(1e15) + int64(i)*5000
			e.StageReached = e.Received + 20_000
			for _, resource := range []string{"pods", "nodes", "services"} {
				e.URI = []byte("/api/v1/" + resource)
				c.observe(e)
			}
		}
		if len(c.starts.pairs) > maxPairs || len(c.questions.kept) > maxQuestions {
			t.Errorf("%d pairs and %d reads are kept", len(c.starts.pairs), len(c.questions.kept))
		}
		c.finish()
		for _, v := range c.clients.rows {
			starts += v.starts
		}
		for _, v := range c.cells.rows {
			atStart += v.atStart
		}
		return starts, atStart, c.forecast
	}
	starts, atStart, f := count(false)
	if s, a, g := count(true); s != starts || a != atStart || g != f {
		t.Errorf("got %d starts, %d requests, %+v; backwards %d, %d, %+v", starts, atStart, f, s, a, g)
	}
	if starts < 10_000 || atStart != 3*starts || f.Shared < f.Reads/3 || f.Shared+f.Unproven != f.Reads {
		t.Errorf("got %d starts, %d requests, %+v", starts, atStart, f)
	}
}
