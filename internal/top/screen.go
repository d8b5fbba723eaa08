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

	// shown are the newest reports of the view, nil before there are any, and failed
	// is why there are no newer ones.
	shown  *reports
	failed error
	before totals
}

type fetched struct {
	view    string
	reports *reports
	err     error
}

// run draws until the context ends or the user does. What the terminal was is
// restored. The reader of keys ends with the process, for a read of a terminal
// cannot be called off.
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
	resized, ignore := resizes()
	defer ignore()
	keys := make(chan byte)
	go readKeys(ctx, in, keys)
	return s.loop(ctx, keys, resized)
}

func (s *screen) loop(ctx context.Context, keys <-chan byte, resized <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan fetched, 1)
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
			answers <- fetched{v.name, r, err}
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
			} else if s.take(a); errors.Is(a.err, errFinal) {
				return a.err
			}
		case key := <-keys:
			before := s.view.name
			if !s.press(key) {
				return nil
			}
			if s.view.name != before {
				s.shown, s.failed, s.before = nil, nil, totals{}
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

// take keeps what was fetched for the view.
func (s *screen) take(a fetched) {
	if s.failed = a.err; a.err != nil {
		return
	}
	if s.shown != nil {
		s.before = s.shown.totals()
	}
	a.reports.before = s.before
	s.shown = a.reports
}

// press does what a key says, and reports whether to go on.
func (s *screen) press(key byte) bool {
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
	if s.failed != nil {
		for line := range strings.SplitSeq(s.failed.Error(), "\n") {
			p.paragraph(critical, "", clean(line))
		}
	}
	if s.shown != nil {
		p.blank()
		s.view.draw(p, s.shown)
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
