// Package chromium drives a headless Chromium for tests of web pages.
package chromium

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// waitTimeout bounds every wait for the browser. It is long, because other tests may use the
// machine at the same time.
const waitTimeout = 2 * time.Minute

// Browser is a headless Chromium with one page, driven through a pipe by the
// DevTools protocol.
type Browser struct {
	t       *testing.T
	in      *os.File
	session string

	mu      sync.Mutex         // guards the fields below
	next    int                // number of the last command
	waiting map[int]chan reply // commands without an answer; nil once the browser has ended
	// problems holds console messages, log entries and exceptions since the last call
	// of Problems.
	problems []string
}

// reply is a message of the browser: the answer to the command ID, or an event of Method.
type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Open starts a browser. The browser ends with the test. Without Chromium on the machine,
// Open skips the test.
func Open(t *testing.T) *Browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium")
	}
	toRead, toWrite := pipe(t)
	fromRead, fromWrite := pipe(t)
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, fromWrite}
	if err := cmd.Start(); err != nil {
		t.Skipf("start Chromium: %v", err)
	}
	_, _ = toRead.Close(), fromWrite.Close()
	b := &Browser{t: t, in: toWrite, waiting: map[int]chan reply{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.read(fromRead)
	}()
	t.Cleanup(func() {
		_ = b.in.Close() // makes the browser exit
		stop := time.AfterFunc(waitTimeout, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		stop.Stop()
		_ = fromRead.Close()
		<-ended
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return read, write
}

// read handles the browser's messages until the pipe is closed. Each message ends with a
// NUL byte.
func (b *Browser) read(from *os.File) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var r reply
		if json.Unmarshal(bytes.TrimRight(line, "\x00"), &r) == nil {
			b.handle(r)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.waiting {
		close(c)
	}
	b.waiting = nil
}

// handle passes an answer to its caller, and collects the problems that events report.
func (b *Browser) handle(r reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.waiting[r.ID]; c != nil {
		delete(b.waiting, r.ID)
		c <- r
		return
	}
	switch r.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
		b.problems = append(b.problems, string(r.Params))
	case "Log.entryAdded":
		var p struct {
			Entry struct{ Source, Level, Text, URL string }
		}
		// Refused requests appear in the log as network errors. Tests cause them on
		// purpose.
		if json.Unmarshal(r.Params, &p) == nil && p.Entry.Source != "network" {
			b.problems = append(b.problems, fmt.Sprintf("%+v", p.Entry))
		}
	}
}

// call sends a command and waits for its answer. It decodes the answer into result,
// unless result is nil. An error ends the test.
func (b *Browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		b.t.Fatal("Chromium has ended")
	}
	b.next++
	id, answer := b.next, make(chan reply, 1)
	b.waiting[id] = answer
	b.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	line, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(line, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case r, ok := <-answer:
		switch {
		case !ok:
			b.t.Fatalf("%s: Chromium has ended", method)
		case r.Error != nil:
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		case result != nil:
			if err := json.Unmarshal(r.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(waitTimeout):
		b.t.Fatalf("%s: no answer within %v", method, waitTimeout)
	}
}

// Eval evaluates a JavaScript expression in the page and returns its value as text.
func (b *Browser) Eval(expression string) string {
	b.t.Helper()
	var out struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "awaitPromise": true, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	return fmt.Sprint(out.Result.Value)
}

// WaitUntil waits until a JavaScript expression is true in the page.
func (b *Browser) WaitUntil(expression string) {
	b.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(waitTimeout); ; {
		if b.Eval(expression) == "true" {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			b.t.Fatalf("not so within %v: %s; the page says: %.4000s", waitTimeout, expression, b.Eval("document.body.innerText"))
		}
	}
}

// Go navigates to a URL and waits until the document is loaded. It does not wait for
// requests that the page's script makes.
func (b *Browser) Go(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.WaitUntil("location.href === " + fmt.Sprintf("%q", url) + " && document.readyState === 'complete'")
}

// SetAppearance sets the window's width in pixels and the preferred color scheme, "light"
// or "dark".
func (b *Browser) SetAppearance(width int, theme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}}, nil)
}

// screenshotsVariable is the environment variable that names the directory for screenshots.
// If it is empty, no screenshots are taken.
const screenshotsVariable = "MILLRACE_SCREENSHOTS"

// Screenshot writes a screenshot of the whole page to name.png in the directory that
// MILLRACE_SCREENSHOTS names. It does nothing if the variable is empty.
func (b *Browser) Screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv(screenshotsVariable)
	if dir == "" {
		return
	}
	var out struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &out)
	picture, err := base64.StdEncoding.DecodeString(out.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// Problems returns the console messages, log entries and exceptions since its last call.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	problems := b.problems
	b.problems = nil
	return problems
}
