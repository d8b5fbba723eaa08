package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/millrace/millrace/internal/tool/display"
)

// The escape sequences that are written before and after the program draws. enterScreen
// switches to the alternate screen, hides the cursor, and turns the wrapping of long lines
// off. leaveScreen undoes this.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// screen is a terminal on which one view at a time is drawn and refreshed in place.
//
// Only the goroutine of loop uses the fields. A second goroutine reads keys, and a third fetches
// reports, one request at a time. Both pass their results to loop.
type screen struct {
	client   *client
	out      *os.File
	interval time.Duration
	view     view
	wide     bool
	color    bool

	// reports are the newest reports of the view, nil before the first answer.
	reports *reports
	// fetchErr is the error of the last request, nil if it succeeded. reports stay as they were
	// before the error.
	fetchErr error
	// previous has the totals of the second newest reports, for rates. It is zero before the
	// second answer.
	previous totals
}

// fetchResult is the result of one request for a view's reports.
type fetchResult struct {
	// view is the view's name. The user may have changed to another view meanwhile.
	view    string
	reports *reports
	err     error
}

// run draws until the context ends, the user quits or the server refuses the reports. It then restores
// the terminal. The goroutine that reads keys outlives run, because a read from a terminal
// cannot be cancelled. It ends with the process.
func (s *screen) run(ctx context.Context, in *os.File) error {
	oldState, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), oldState) }()
	if _, err := s.out.WriteString(enterScreen); err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer func() { _, _ = s.out.WriteString(leaveScreen) }()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	keys := make(chan byte)
	go readKeys(ctx, in, keys)
	return s.loop(ctx, keys, resized)
}

// loop handles keys, answers, ticks and changes of the window's size, and draws after each
// of them. At most one request is under way; loop returns after it has ended.
func (s *screen) loop(ctx context.Context, keys <-chan byte, resized <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan fetchResult, 1)
	asking := false
	defer func() {
		cancel()
		if asking {
			<-answers
		}
	}()
	ask := func() {
		if asking {
			return
		}
		asking = true
		v := s.view
		go func() {
			r, err := s.client.fetch(ctx, v)
			answers <- fetchResult{v.name, r, err}
		}()
	}
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	ask()
	for {
		s.draw()
		select {
		case a := <-answers:
			asking = false
			if a.view != s.view.name {
				ask()
			} else if s.setReports(a); errors.Is(a.err, errRefused) {
				return a.err
			}
		case key := <-keys:
			before := s.view.name
			if !s.handleKey(key) {
				return nil
			}
			if s.view.name != before {
				s.reports, s.fetchErr, s.previous = nil, nil, totals{}
				ask()
			}
		case <-ticker.C:
			ask()
		case <-resized:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setReports keeps the answer to a request for the current view. If it is an error, the older
// reports stay.
func (s *screen) setReports(a fetchResult) {
	if s.fetchErr = a.err; a.err != nil {
		return
	}
	if s.reports != nil {
		s.previous = s.reports.sums()
	}
	a.reports.previous = s.previous
	s.reports = a.reports
}

// handleKey changes the view or the columns as a key says, and ignores unknown keys. It
// returns false if the user quits.
func (s *screen) handleKey(key byte) bool {
	all := views()
	at := slices.IndexFunc(all, func(v view) bool { return v.name == s.view.name })
	switch {
	case key == 'q' || key == ctrlC || key == ctrlD:
		return false
	case key == 'w':
		s.wide = !s.wide
	case key == '\t':
		s.view = all[(at+1)%len(all)]
	case key >= '1' && int(key-'1') < len(all):
		s.view = all[key-'1']
	}
	return true
}

// Bytes that a terminal in raw mode sends for control characters.
const (
	ctrlC = 3
	ctrlD = 4
)

// readKeys sends typed bytes to keys until reading fails or the context ends. It skips
// escape sequences, which arrow keys and function keys send.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		if n > 1 && buf[0] == '\x1b' {
			continue
		}
		for _, key := range buf[:n] {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}

// draw writes the whole screen. It overwrites the old lines instead of clearing them first, so that
// the screen does not flicker.
func (s *screen) draw() {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	_, _ = s.out.WriteString(s.frame(width, height))
}

// frame returns the text of the whole screen, with at most height lines.
func (s *screen) frame(width, height int) string {
	p := &page{width: width, color: s.color, wide: s.wide}
	p.lines = append(p.lines, s.head(p))
	if s.fetchErr != nil {
		for line := range strings.SplitSeq(s.fetchErr.Error(), "\n") {
			p.paragraph(critical, "", display.Clean(line))
		}
	}
	if s.reports != nil {
		p.blank()
		s.view.draw(p, s.reports)
	}
	if len(p.lines) > height {
		p.lines = p.lines[:height-1]
		p.line(dim, "… more lines: make the terminal higher, or see --once")
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range p.lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// head returns the first line: the views that fit, the current one in bold, and the server's
// host if there is room.
func (s *screen) head(p *page) string {
	used := 0
	var parts []string
	for i, v := range views() {
		label := fmt.Sprintf("%d %s", i+1, v.name)
		style := dim
		if v.name == s.view.name {
			style = bold
		}
		if used += len(label) + len(gap); used > p.width {
			break
		}
		parts = append(parts, p.withStyle(style, label))
	}
	if used+len(s.client.host)+len("q ends") < p.width {
		parts = append(parts, p.withStyle(accent, display.Clean(s.client.host)), p.withStyle(dim, "q ends"))
	}
	return strings.Join(parts, gap)
}
