package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// What begins and ends the drawing: the alternate screen, without cursor and without
// wrapping of long lines.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// screen is a terminal on which views are refreshed in place.
type screen struct {
	client   *client
	out      *os.File
	interval time.Duration
	view     view
	wide     bool
	color    bool

	// reports are the newest reports of the view, nil before there are any. fetchErr is
	// why there are no newer ones.
	reports  *reports
	fetchErr error
	previous totals
}

type fetchResult struct {
	view    string
	reports *reports
	err     error
}

// run draws until the context ends or the user quits, and then restores the terminal.
// The goroutine that reads keys ends with the process: a read of a terminal cannot be
// cancelled.
func (s *screen) run(ctx context.Context, in *os.File) error {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), was) }()
	if _, err := s.out.WriteString(enterScreen); err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer func() { _, _ = s.out.WriteString(leaveScreen) }()
	resized, ignore := watchResizes()
	defer ignore()
	keys := make(chan byte)
	go readKeys(ctx, in, keys)
	return s.loop(ctx, keys, resized)
}

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
			} else if s.setReports(a); errors.Is(a.err, errFinal) {
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

// setReports sets the reports of the view, or the error.
func (s *screen) setReports(a fetchResult) {
	if s.fetchErr = a.err; a.err != nil {
		return
	}
	if s.reports != nil {
		s.previous = s.reports.totals()
	}
	a.reports.previous = s.previous
	s.reports = a.reports
}

// handleKey handles a key. It returns false if the user quits.
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

const ctrlC, ctrlD = 3, 4

// readKeys hands on what is typed. Sequences of arrows and such are skipped.
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

// draw writes the whole screen, line over line, so that nothing flickers.
func (s *screen) draw() {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	_, _ = s.out.WriteString(s.frame(width, height))
}

func (s *screen) frame(width, height int) string {
	p := &page{width: width, color: s.color, wide: s.wide}
	p.lines = append(p.lines, s.head(p))
	if s.fetchErr != nil {
		for line := range strings.SplitSeq(s.fetchErr.Error(), "\n") {
			p.paragraph(critical, "", clean(line))
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

// head names the views and the server.
func (s *screen) head(p *page) string {
	used := 0
	var parts []string
	for i, v := range views() {
		label := fmt.Sprintf("%d %s", i+1, v.name)
		how := dim
		if v.name == s.view.name {
			how = bold
		}
		if used += len(label) + len(gap); used > p.width {
			break
		}
		parts = append(parts, p.styled(how, label))
	}
	if used+len(s.client.host)+len("q ends") < p.width {
		parts = append(parts, p.styled(accent, clean(s.client.host)), p.styled(dim, "q ends"))
	}
	return strings.Join(parts, gap)
}
