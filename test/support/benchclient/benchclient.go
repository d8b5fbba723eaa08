// Package benchclient runs the HTTP/2 clients of a benchmark in a process of their own, so
// that CPU returns the cost of the server alone, with its system calls.
//
// The clients' process is another copy of the test binary. So TestMain must call Task first. If
// Task returns a task, TestMain must run the clients instead of the tests.
package benchclient

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

const taskVariable = "BENCHMARK_CLIENT_TASK"

// Task returns the task that Start gave to this process. It returns "" in the process of the tests.
func Task() string { return os.Getenv(taskVariable) }

// Start starts a process for a task. The process ends with the benchmark. in and out are its
// standard input and output.
func Start(b *testing.B, task string) (in io.Writer, out *bufio.Reader) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), taskVariable+"="+task)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	return stdin, bufio.NewReader(stdout)
}

// New returns a client with one connection, which trusts every server.
func New() *http.Client {
	return &http.Client{Transport: &http2.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true,
	}}
}

// Follow opens conns connections with a number of streams each. The server sends lines on them.
// Follow prints a line whenever all streams together have received one more line each, and
// returns when the benchmark has ended. Connection i sends "user-i" in the header Test-User.
func Follow(conns, streams int, url string) {
	FollowEach(slices.Repeat([]string{url}, conns*streams), conns, conns*streams)
}

// FollowEach does what Follow does, with one stream for each URL, spread over conns connections.
// It prints a line whenever round more lines have arrived.
func FollowEach(urls []string, conns, round int) {
	var arrived atomic.Int64
	clients := make([]*http.Client, conns)
	for i := range clients {
		clients[i] = New()
	}
	for i, url := range urls {
		client := clients[i%conns]
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Test-User", fmt.Sprint("user-", i%conns))
		go func() {
			resp, err := client.Do(req)
			if err != nil {
				panic(err)
			}
			for lines := bufio.NewReader(resp.Body); ; {
				if _, err := lines.ReadSlice('\n'); err != nil {
					return
				}
				if arrived.Add(1)%int64(round) == 0 {
					fmt.Println()
				}
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// CPU returns the CPU time that this process has used.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
