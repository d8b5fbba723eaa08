package share_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/replica/share"
)

// server answers each question when the test says so, and counts them.
type server struct {
	mu        sync.Mutex
	questions int
	answers   chan func(http.ResponseWriter, *http.Request)
}

// ServeHTTP implements http.Handler. It ends with the request's context.
func (s *server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	s.questions++
	s.mu.Unlock()
	select {
	case answer := <-s.answers:
		answer(w, req)
	case <-req.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

// bench is a share.Reads in front of a server, in a bubble of synctest.
type bench struct {
	*server
	t     *testing.T
	reads *share.Reads
	// shared counts the requests that were answered with the answer to another one.
	shared atomic.Int64
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{server: &server{answers: make(chan func(http.ResponseWriter, *http.Request))}, t: t}
		b.reads = share.New(share.Config{
			Next: b.server, MayShare: func(*http.Request) bool { return true }, Shared: func(*http.Request) { b.shared.Add(1) },
		})
		test(b)
	})
}

// client is one request and what has become of it.
type client struct {
	*httptest.ResponseRecorder
	done chan struct{}
	// panicked is what the handler has panicked with, and cut says that it was to cut the
	// connection.
	panicked any
	cut      bool
	leave    context.CancelFunc
}

// send sends a request, and returns when all goroutines wait for something.
func (b *bench) send(number int, change func(*http.Request)) *client {
	c := &client{ResponseRecorder: httptest.NewRecorder(), done: make(chan struct{})}
	req := httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, "/api/v1/namespaces", nil)
	verb := "list"
	if req.Header.Set("Audit-Id", fmt.Sprint(number)); change != nil {
		change(req)
		if strings.Contains(req.RequestURI, "watch") {
			verb = "watch"
		}
	}
	ctx, cancel := context.WithCancel(request.WithRequestInfo(req.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: verb, Resource: "namespaces"}))
	c.leave = cancel
	c.Header().Set("Audit-Id", fmt.Sprint(number))
	go func() {
		defer close(c.done)
		defer func() {
			c.panicked = recover()
			c.cut = c.panicked == http.ErrAbortHandler
		}()
		b.reads.ServeHTTP(c, req.WithContext(ctx))
	}()
	synctest.Wait()
	return c
}

// crowd has one request under way, and some more that wait for it.
func (b *bench) crowd(n int) (first *client, behind []*client) {
	first = b.send(0, nil)
	for i := range n {
		behind = append(behind, b.send(i+1, nil))
	}
	if b.questions != 1 {
		b.t.Fatalf("%d questions for the first request and those behind it", b.questions)
	}
	return first, behind
}

// answer answers a question, and returns when all goroutines wait for something.
func (b *bench) answer(answer func(http.ResponseWriter, *http.Request)) {
	b.answers <- answer
	synctest.Wait()
}

func (b *bench) wantQuestions(want int) {
	b.t.Helper()
	if b.questions != want {
		b.t.Errorf("%d questions, want %d", b.questions, want)
	}
}

func (b *bench) wantBody(c *client, want string) {
	b.t.Helper()
	select {
	case <-c.done:
	default:
		b.t.Errorf("a request is not over; it has %q", c.Body)
		return
	}
	if c.cut || c.Body.String() != want {
		b.t.Errorf("got %q, cut %v, want %q", c.Body, c.cut, want)
	}
}

func says(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// TestThoseBehindShare: the answer under way was asked for too early for those who come later.
// They share the next one.
func TestThoseBehindShare(t *testing.T) {
	inBubble(t, func(b *bench) {
		first, behind := b.crowd(50)
		b.answer(says("old"))
		b.wantBody(first, "old")
		b.wantQuestions(2)
		late := b.send(99, nil)
		b.answer(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Audit-Id", req.Header.Get("Audit-Id"))
			w.Header().Set("Content-Type", "text/new")
			fmt.Fprint(w, "new")
		})
		for i, c := range behind {
			b.wantBody(c, "new")
			if got := c.Header(); got.Get("Content-Type") != "text/new" || got.Get("Audit-Id") != fmt.Sprint(i+1) {
				t.Errorf("request %d got headers %v", i+1, got)
			}
		}
		b.answer(says("newest"))
		b.wantBody(late, "newest")
		b.wantQuestions(3)
	})
}

// answerInHalves lets two readers share an answer, of which they have the first half. goOn sends the
// rest by a function.
func (b *bench) answerInHalves(rest func(http.ResponseWriter)) (readers []*client, goOn func()) {
	_, readers = b.crowd(2)
	b.answer(says("old"))
	ended := make(chan struct{})
	b.answer(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "begin ")
		<-ended
		rest(w)
	})
	return readers, func() { close(ended); synctest.Wait() }
}

// TestAnswersAreStreamed: readers have the beginning before the end is there.
func TestAnswersAreStreamed(t *testing.T) {
	inBubble(t, func(b *bench) {
		behind, goOn := b.answerInHalves(func(w http.ResponseWriter) { fmt.Fprint(w, "end") })
		for _, c := range behind {
			if got := c.Body.String(); got != "begin " || !c.Flushed {
				t.Errorf("a reader has %q, flushed %v, while the answer is under way", got, c.Flushed)
			}
		}
		goOn()
		for _, c := range behind {
			b.wantBody(c, "begin end")
		}
	})
}

// TestRefusalsAreNotShared: what one user is told may be for that user alone.
func TestRefusalsAreNotShared(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGone} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				_, behind := b.crowd(3)
				b.answer(says("old"))
				b.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, "no") })
				for range 2 {
					b.answer(says("yes"))
				}
				b.wantQuestions(4)
				refused := 0
				for _, c := range behind {
					if c.Code == status {
						refused++
						b.wantBody(c, "no")
					} else {
						b.wantBody(c, "yes")
					}
				}
				if refused != 1 {
					t.Errorf("%d requests were refused, want the one that was asked for", refused)
				}
			})
		})
	}
}

func TestNotFoundIsShared(t *testing.T) {
	inBubble(t, func(b *bench) {
		_, behind := b.crowd(3)
		b.answer(says("old"))
		b.answer(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "none")
		})
		b.wantQuestions(2)
		for _, c := range behind {
			b.wantBody(c, "none")
		}
		// One of the three has asked for all.
		if n := b.shared.Load(); n != 2 {
			t.Errorf("%d requests shared an answer, want 2", n)
		}
	})
}

// TestReadersLeave: the question goes on while anybody wants its answer, and no longer.
func TestReadersLeave(t *testing.T) {
	inBubble(t, func(b *bench) {
		first, behind := b.crowd(3)
		behind[0].leave()
		synctest.Wait()
		b.answer(says("old"))
		b.wantBody(first, "old")
		behind[1].leave()
		synctest.Wait()
		b.wantQuestions(2)
		b.answer(says("new"))
		b.wantBody(behind[2], "new")
	})
	t.Run("all", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			_, behind := b.crowd(2)
			b.answer(says("old"))
			for _, c := range behind {
				c.leave()
			}
			synctest.Wait()
			next := b.send(9, nil)
			b.answer(says("next"))
			b.wantBody(next, "next")
			b.wantQuestions(3)
		})
	})
	t.Run("before the question", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			first, behind := b.crowd(2)
			for _, c := range behind {
				c.leave()
			}
			synctest.Wait()
			b.answer(says("old"))
			b.wantBody(first, "old")
			b.wantQuestions(1)
		})
	})
}

// TestCutAnswers: an answer that is cut short is cut for those who have begun to read it.
func TestCutAnswers(t *testing.T) {
	inBubble(t, func(b *bench) {
		behind, goOn := b.answerInHalves(func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
		goOn()
		for _, c := range behind {
			if <-c.done; !c.cut {
				t.Errorf("a reader of an answer that was cut short has %q as a whole", c.Body)
			}
		}
		b.wantQuestions(2)
	})
}

// TestPanics: the one who asks panics as it would alone, and the others ask for themselves.
func TestPanics(t *testing.T) {
	inBubble(t, func(b *bench) {
		_, behind := b.crowd(2)
		b.answer(says("old"))
		b.answer(func(http.ResponseWriter, *http.Request) { panic("a fault") })
		b.answer(says("new"))
		faults := 0
		for _, c := range behind {
			if <-c.done; c.panicked == "a fault" {
				faults++
			} else {
				b.wantBody(c, "new")
			}
		}
		if faults != 1 {
			t.Errorf("%d requests panicked, want the one that asked", faults)
		}
	})
}

// TestTooLargeAnswers: what is held for several has a bound, and is no longer held when they have it.
func TestTooLargeAnswers(t *testing.T) {
	inBubble(t, func(b *bench) {
		large := strings.Repeat("x", 40<<20)
		for range 2 {
			_, behind := b.crowd(2)
			b.answer(says("old"))
			b.answer(says(large))
			for _, c := range behind {
				b.wantBody(c, large)
			}
			b.questions = 0
		}
		_, behind := b.crowd(2)
		b.answer(says("old"))
		b.answer(says(large + large))
		for range behind {
			b.answer(says(large + large))
		}
		for _, c := range behind {
			b.wantBody(c, large+large)
		}
	})
}

// TestWhatIsNotShared has requests whose answers may depend on more than others know of.
func TestWhatIsNotShared(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"another header":   func(req *http.Request) { req.Header.Set("X-Millrace-Explain", "1") },
		"another form":     func(req *http.Request) { req.Header.Set("Accept", "application/yaml") },
		"another coding":   func(req *http.Request) { req.Header.Set("Accept-Encoding", "gzip") },
		"a person's agent": func(req *http.Request) { req.Header.Set("User-Agent", "curl/8") },
		"another query":    func(req *http.Request) { req.RequestURI += "?limit=1" },
		"a watch":          func(req *http.Request) { req.RequestURI += "?watch=1" },
		"a write":          func(req *http.Request) { req.Method = http.MethodPost },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				usual := b.send(0, nil)
				other := b.send(1, change)
				b.wantQuestions(2)
				b.answer(says("x"))
				b.answer(says("x"))
				b.wantBody(usual, "x")
				b.wantBody(other, "x")
			})
		})
	}
}
