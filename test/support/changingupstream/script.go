package changingupstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Script changes some definitions at an upstream, and writes objects. Its seed decides the
// order of its steps, but not their times.
type Script struct {
	*Upstream
	Seed uint64
	// Resources has the resources whose objects it writes: custom ones first, then built-in ones.
	Resources []*Resource
	// Namespaces has the namespaces that it has created.
	Namespaces []string

	// Disturb takes the place of some steps, if it is set.
	Disturb func(ctx context.Context, random *rand.Rand) error
	// Unchanged makes the script change nothing but objects: its steps are pauses.
	Unchanged bool
	// Right is the only right of an account, which the script gives and revokes.
	Right Right

	extension     *Extension
	random        *rand.Rand
	steps, writes atomic.Int64
	mu            struct {
		sync.Mutex
		log []string
	}
}

// refusedPause is the time until a refused request is sent again.
const refusedPause = 100 * time.Millisecond

// Send does what Client.Send does. It repeats a request that the upstream has refused because of
// its load (429), which is not carried out.
func (s *Script) Send(ctx context.Context, r Call) *Answer {
	for {
		a := s.Upstream.Send(ctx, r)
		if a.Status != http.StatusTooManyRequests {
			return a
		}
		select {
		case <-time.After(refusedPause):
		case <-ctx.Done():
			return a
		}
	}
}

// NewResources returns the custom resources of a script. The names depend on the seed.
func NewResources(seed uint64, hook *Webhook) []*Resource {
	var all []*Resource
	for _, plural := range []string{"minis", "maxis"} {
		r := newResource(Names{Group: fmt.Sprintf("%s.s%d.living.example.com", plural, seed), Plural: plural, Kind: strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]})
		r.Definition = &Definition{Names: r.Names, hook: hook}
		all = append(all, r)
	}
	return all
}

// NewScript returns a script for an upstream that was made for the same resources.
func NewScript(u *Upstream, e *Extension, seed uint64, resources ...*Resource) *Script {
	return &Script{
		extension: e, Upstream: u, Seed: seed, Resources: resources, random: rand.New(rand.NewPCG(seed, 1)),
		Namespaces: []string{fmt.Sprintf("living-%d-a", seed), fmt.Sprintf("living-%d-b", seed)},
	}
}

// Pick returns a random resource, more often a custom one.
func (s *Script) Pick(random *rand.Rand) *Resource {
	if r := s.Resources[random.IntN(len(s.Resources))]; r.Definition != nil || random.IntN(2) == 0 {
		return r
	}
	custom := s.custom()
	return custom[random.IntN(len(custom))]
}

// custom returns the custom resources.
func (s *Script) custom() []*Resource {
	return slices.DeleteFunc(slices.Clone(s.Resources), func(r *Resource) bool { return r.Definition == nil })
}

// Counts returns the numbers of steps and writes so far.
func (s *Script) Counts() (steps, writes int64) { return s.steps.Load(), s.writes.Load() }

// record adds a line to the log.
func (s *Script) record(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.log = append(s.mu.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// Log returns a line for each thing that the script has done to definitions and namespaces.
func (s *Script) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.mu.log, "\n")
}

// Begin creates the namespaces and definitions, and some objects.
func (s *Script) Begin(ctx context.Context) error {
	for _, ns := range s.Namespaces {
		if err := s.makeNamespace(ctx, ns); err != nil {
			return err
		}
	}
	if err := s.makeService(ctx); err != nil {
		return err
	}
	if err := s.Right.makeAccount(ctx, s); err != nil {
		return err
	}
	for _, r := range s.Resources {
		if r.Definition == nil {
			continue
		}
		shape := Shape{Served1: true, Storage1: s.random.IntN(2) == 0, Status: true, Warns: true, Wide: s.random.IntN(4) > 0}
		if err := s.create(ctx, r, shape); err != nil {
			return err
		}
	}
	w := s.newWriter(0)
	for _, r := range s.Resources {
		for range initialWrites {
			w.write(ctx, r)
		}
	}
	return nil
}

const (
	// initialWrites is the number of writes to each resource before the first change.
	initialWrites = 6
	// takeUpTimeout bounds the time until the upstream answers by a new definition.
	takeUpTimeout = time.Minute
	// calm is longer than the time after a change in which a replica passes reads on.
	calm = 2 * time.Second
	// One of disturbEach steps is a disturbance.
	disturbEach = 5
	// poll is the interval between two questions to the upstream.
	poll = 10 * time.Millisecond
)

// Run makes a number of changes while it writes objects.
func (s *Script) Run(ctx context.Context, steps int) error {
	ctx, stop := context.WithCancel(ctx)
	var writing sync.WaitGroup
	for i, r := range s.Resources {
		w := s.newWriter(uint64(100 + i))
		writing.Go(func() { w.run(ctx, r) })
	}
	defer writing.Wait()
	defer stop()
	for range steps {
		if err := s.step(ctx); err != nil {
			return fmt.Errorf("change the world: %w", err)
		}
		s.steps.Add(1)
		pause := time.Duration(s.random.IntN(60)) * time.Millisecond
		if s.random.IntN(4) == 0 { // so that watches of a former state end, and replicas answer
			pause = calm
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for a pause. If the context ends before, wait returns its cause.
func wait(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// step makes one change.
func (s *Script) step(ctx context.Context) error {
	if s.Disturb != nil && s.random.IntN(disturbEach) == 0 {
		return s.Disturb(ctx, s.random)
	}
	if s.Unchanged {
		return wait(ctx, calm)
	}
	custom := s.custom()
	r := custom[s.random.IntN(len(custom))]
	switch n := s.random.IntN(100); {
	case n < 62:
		next := r.Now().Shape
		for range 1 + s.random.IntN(2) {
			next.changeMore(s.random)
		}
		return s.update(ctx, r, next)
	case n < 72:
		return s.handOverBriefly(ctx, r)
	case n < 82:
		return s.remake(ctx, r)
	case n < 90:
		return s.rewrite(ctx, r)
	case n < 95:
		return s.Right.toggle(ctx, s)
	}
	return s.remakeNamespace(ctx, s.Namespaces[s.random.IntN(len(s.Namespaces))])
}

// changeMore changes one property, more often one that objects show.
func (s *Shape) changeMore(random *rand.Rand) {
	switch random.IntN(14) {
	case 12, 13:
		s.Served1 = !s.Served1 || random.IntN(2) == 0
	case 0, 1:
		s.Wide = !s.Wide
	case 2, 3:
		s.DefaultValue = []string{"", "yellow", "black"}[random.IntN(3)]
	case 4:
		s.Unpruned = !s.Unpruned
	case 5, 6:
		s.Storage1 = !s.Storage1
	case 7:
		s.Conversion = []string{"", WorkingConversion}[random.IntN(2)]
	default:
		s.Change(random, false)
	}
}

// create creates a definition that does not exist.
func (s *Script) create(ctx context.Context, r *Resource, next Shape) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	return s.createLocked(ctx, r, next)
}

// createLocked is create for a caller that holds r.turn for writing.
func (s *Script) createLocked(ctx context.Context, r *Resource, next Shape) error {
	s.record("create %s: %v", r.Name(), next)
	r.Definition.begin(next, false)
	call := Call{Method: http.MethodPost, Path: DefinitionsPath, Content: "application/json", Body: r.Object(next, "", r.Definition.hook)}
	if a := s.Send(ctx, call); a.Status != http.StatusCreated {
		return fmt.Errorf("create %s: status %d: %s", r.Name(), a.Status, a.Message())
	}
	return s.awaitShape(ctx, r, next)
}

// update changes a definition.
func (s *Script) update(ctx context.Context, r *Resource, next Shape) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	next.Generation++
	s.record("update %s: %v", r.Name(), next)
	r.Definition.begin(next, false)
	for {
		a := s.Send(ctx, Get(r.Path()))
		var read struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(a.Body, &read); err != nil {
			return fmt.Errorf("read %s: %w: %w", r.Name(), a.Err, err)
		}
		a = s.Send(ctx, Call{
			Method: http.MethodPut, Path: r.Path(), Content: "application/json",
			Body: r.Object(next, read.Metadata.ResourceVersion, r.Definition.hook),
		})
		switch a.Status {
		case http.StatusConflict: // its status was written
			continue
		case http.StatusOK:
			return s.awaitShape(ctx, r, next)
		}
		return fmt.Errorf("update %s: status %d: %s", r.Name(), a.Status, a.Message())
	}
}

// awaitShape waits until the upstream answers by a new shape, and records all objects in it.
func (s *Script) awaitShape(ctx context.Context, r *Resource, next Shape) error {
	defer s.watchState(ctx, r)
	ctx, cancel := context.WithTimeout(ctx, takeUpTimeout)
	defer cancel()
	for _, version := range next.ServedVersions() {
		for {
			a := s.Send(ctx, Get(r.Collection(version, "")))
			if a.Status == http.StatusOK && a.Generation() == next.Generation {
				list, err := NewList(a.Body)
				if err != nil {
					return err
				}
				s.noteList(r, version, next.Generation, list)
				break
			}
			if err := wait(ctx, poll); err != nil {
				return fmt.Errorf("%s in %s is not at generation %d: status %d of %d: %s", r.Name(), version, next.Generation, a.Status, a.Generation(), a.Message())
			}
		}
	}
	r.Definition.markSettled()
	s.record("settled %s: %d", r.Name(), next.Generation)
	return nil
}

// watchState starts a watch of a resource by its present definition. The watch lasts until the
// upstream ends it, because the definition has changed.
func (s *Script) watchState(ctx context.Context, r *Resource) {
	served := r.servedVersions()
	if len(served) == 0 {
		return
	}
	a, body := s.Open(ctx, Get(r.Collection(served[0], "")+"?watch=true&timeoutSeconds=3600"))
	if body == nil {
		return
	}
	if a.Status != http.StatusOK {
		_ = body.Close()
		return
	}
	ended := r.Definition.noteWatch()
	go func() {
		defer ended()
		defer body.Close()
		_, _ = io.Copy(io.Discard, body)
	}()
}

// remake deletes a definition with its objects, and creates it again.
func (s *Script) remake(ctx context.Context, r *Resource) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	next := r.Now().Shape
	s.record("delete %s", r.Name())
	r.noteDeleting("", "")
	r.Definition.begin(next, true)
	for {
		a := s.Send(ctx, Call{Method: http.MethodDelete, Path: r.Path()})
		if a.Status == http.StatusNotFound {
			break
		}
		if err := wait(ctx, poll); err != nil {
			return fmt.Errorf("delete %s: status %d: %s: %w", r.Name(), a.Status, a.Message(), err)
		}
	}
	r.noteDeleted("", "")
	if err := s.awaitGone(ctx, r, next); err != nil {
		return err
	}
	next.Generation++
	if s.random.IntN(2) == 0 {
		next.ClusterScoped = !next.ClusterScoped
	}
	next.changeMore(s.random)
	return s.createLocked(ctx, r, next)
}

// awaitGone waits until the upstream does not serve a deleted definition any more.
func (s *Script) awaitGone(ctx context.Context, r *Resource, before Shape) error {
	ctx, cancel := context.WithTimeout(ctx, takeUpTimeout)
	defer cancel()
	for _, version := range before.ServedVersions() {
		for {
			a := s.Send(ctx, Get(r.Collection(version, "")))
			if a.Status == http.StatusNotFound {
				break
			}
			if err := wait(ctx, poll); err != nil {
				return fmt.Errorf("%s is still served: status %d", r.Name(), a.Status)
			}
		}
	}
	r.Definition.markSettled()
	s.record("gone %s", r.Name())
	return nil
}

// rewrite writes all objects of a resource without a change, as a storage migration does.
func (s *Script) rewrite(ctx context.Context, r *Resource) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	s.record("rewrite the objects of %s", r.Name())
	a := s.Send(ctx, Get(r.Collection("v2", "")))
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
		}
	}
	if err := json.Unmarshal(a.Body, &list); err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("list %s: status %d: %w", r.Name(), a.Status, errors.Join(a.Err, err))
	}
	for _, item := range list.Items {
		path := r.Collection("v2", item.Metadata.Namespace) + "/" + item.Metadata.Name
		object := s.Send(ctx, Get(path))
		a := s.Send(ctx, Call{Method: http.MethodPut, Path: path, Content: "application/json", Body: string(object.Body)})
		if o, err := NewObject(a.Body); err == nil && a.Status == http.StatusOK {
			r.noteWrite(o)
			s.recordWrite(ctx, r, o)
		}
	}
	return nil
}
