package crd

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

// catalogBatch is the number of events that are read from the log at a time.
const catalogBatch = 64

// Catalog has a row (Definition) for each definition. Everything that must know all
// definitions works by rows: handlers, discovery, OpenAPI and the controller. A row takes
// some hundred bytes for each version, where a decoded definition takes up to megabytes.
//
// One goroutine (Run) follows the event log of definitions with a cursor, and reads the
// rows out of the stored bytes. Rows are immutable, and readers share them. So rows may lag
// the cache by a moment. CatchUp waits for them.
//
// If a stored definition cannot be read, its row stays as it was before, if there was one.
// A definition counts as unreadable if its new spec cannot be decoded, or if its name is not
// its key: no request could reach it. Unreadable names these definitions.
type Catalog struct {
	store  *storage.Store
	logger *slog.Logger
	// interner belongs to the goroutine of Run.
	interner interner
	// synced is closed once all definitions that existed at the start and can be read have
	// rows.
	synced chan struct{}

	// notify serialises changes of rows with the calls of handlers, so that each handler
	// sees all changes in order. It is taken before mu.
	notify struct {
		sync.Mutex
		handlers []func(before, after *Definition)
	}

	mu struct {
		sync.RWMutex
		byName map[string]*Definition
		// groups has the rows of each group, sorted by name. Its slices are never changed, but
		// replaced.
		groups map[string][]*Definition
		// unreadable has the errors of stored definitions that cannot be read, by key.
		unreadable map[string]error
		// applied is the position in the log up to which the rows are current.
		applied cache.Position
		// advanced is closed when applied changes, and then replaced.
		advanced chan struct{}
	}
}

// NewCatalog makes a catalog over the storage of definitions. It is empty until Run is
// called.
func NewCatalog(definitions *storage.Store, log *slog.Logger) *Catalog {
	c := &Catalog{store: definitions, logger: log, interner: interner{}, synced: make(chan struct{})}
	c.mu.byName, c.mu.groups = map[string]*Definition{}, map[string][]*Definition{}
	c.mu.unreadable = map[string]error{}
	c.mu.advanced = make(chan struct{})
	return c
}

// Get returns the row of a definition by its name, or nil if there is none.
func (c *Catalog) Get(name string) *Definition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.byName[name]
}

// Find returns the row of the definition of a resource, by its accepted plural name, or
// nil if there is none.
func (c *Catalog) Find(group, resource string) *Definition {
	// The name of a definition begins with its plural, which cannot change.
	if d := c.Get(resource + "." + group); d != nil && d.Accepted.Plural == resource {
		return d
	}
	return nil
}

// Group returns the rows of a group, sorted by name. The slice must not be
// changed.
func (c *Catalog) Group(group string) []*Definition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.groups[group]
}

// All returns all rows, in no order.
func (c *Catalog) All() []*Definition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.mu.byName))
}

// Synced reports whether all definitions that existed at the start and can be read have rows.
func (c *Catalog) Synced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// AddHandler calls f for each row that exists, with before nil, and from then on for each
// change, in the order of the log. after is nil for a deletion. During a call the rows of
// the catalog are at least as new as after. f must not block, and must not call
// AddHandler.
func (c *Catalog) AddHandler(f func(before, after *Definition)) {
	c.notify.Lock()
	defer c.notify.Unlock()
	for _, d := range c.All() {
		f(nil, d)
	}
	c.notify.handlers = append(c.notify.handlers, f)
}

// Run follows the definitions until the context ends.
func (c *Catalog) Run(ctx context.Context) error {
	if err := c.store.Cache().Progress().Wait(ctx, 1); err != nil {
		return err
	}
	r := c.store.Resource()
	for ctx.Err() == nil {
		snapshot := r.Snapshot()
		at, _, err := r.Log().Since(snapshot.Revision)
		if err != nil {
			continue // the log no longer has that revision: take a newer snapshot
		}
		c.relist(snapshot.Tree)
		c.advance(at)
		if !c.Synced() {
			close(c.synced)
		}
		c.follow(ctx, at)
	}
	return ctx.Err()
}

// relist brings all rows to the state of a tree.
func (c *Catalog) relist(now cache.Tree) {
	for e := range now.All("", "") {
		if d := c.Get(e.Key); d == nil || d.Revision != e.Revision {
			c.apply(e)
		}
	}
	for _, d := range c.All() {
		if now.Get(d.Name) == nil {
			c.remove(d.Name)
		}
	}
	for key := range c.Unreadable() {
		if now.Get(key) == nil {
			c.remove(key)
		}
	}
}

// remove removes what is known of a key that is gone.
func (c *Catalog) remove(key string) {
	c.setUnreadable(key, nil)
	if d := c.Get(key); d != nil {
		c.setRow(d, nil)
	}
}

// Unreadable returns the errors of the stored definitions that cannot be read, by their keys.
// Definitions that were read before are served as they were.
func (c *Catalog) Unreadable() map[string]error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.mu.unreadable)
}

// setUnreadable records why a definition cannot be read. A nil error says that it can be
// read, or is gone.
func (c *Catalog) setUnreadable(key string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why == nil {
		delete(c.mu.unreadable, key)
	} else {
		c.mu.unreadable[key] = why
	}
}

// follow applies the events of the log from a position on. It returns when the context
// ends, or when the log has dropped events before they were read.
func (c *Catalog) follow(ctx context.Context, at cache.Position) {
	log, buf := c.store.Resource().Log(), make([]cache.Event, catalogBatch)
	for {
		n, next, grown, err := log.Read(at, buf)
		if err != nil {
			return
		}
		for i := range buf[:n] {
			if e := buf[i].Entry; e != nil {
				c.apply(e)
			} else {
				c.remove(buf[i].Key())
			}
		}
		clear(buf[:n])
		if n > 0 {
			at = next
			c.advance(at)
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
	}
}

// apply sets the row of a definition that is new or has changed.
func (c *Catalog) apply(e *entry.Entry) {
	before := c.Get(e.Key)
	var after *Definition
	err := c.store.Cache().Panics().Guard(panics.Definition, func() (err error) {
		if after, err = c.readRow(e, c.interner); err == nil && before != nil && before.Spec != after.Spec {
			// before may be in use, so after must be usable. A new row is decoded when it is used.
			_, err = c.convert(e, c.decodeInternal)
		}
		return err
	})
	c.setUnreadable(e.Key, err)
	if err != nil {
		c.logger.Error("Definition cannot be read; it is served as it was before", "name", e.Key, "revision", e.Revision, "err", err)
		return
	}
	if before != nil && before.UID != after.UID {
		// The definition was deleted and created again between two events.
		c.setRow(before, nil)
		before = nil
	}
	if before != nil && before.Spec == after.Spec {
		after.Versions = before.Versions
	}
	c.setRow(before, after)
}

// setRow replaces a row and calls the handlers. before is nil for a new row, after is nil
// for a deletion.
func (c *Catalog) setRow(before, after *Definition) {
	c.notify.Lock()
	defer c.notify.Unlock()
	c.storeRow(before, after)
	for _, f := range c.notify.handlers {
		f(before, after)
	}
}

// storeRow changes the maps of rows.
func (c *Catalog) storeRow(before, after *Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := after
	if d == nil {
		d = before
		delete(c.mu.byName, d.Name)
	} else {
		c.mu.byName[d.Name] = d
	}
	rows := slices.Clone(c.mu.groups[d.Group])
	i, found := slices.BinarySearchFunc(rows, d.Name, func(row *Definition, name string) int { return strings.Compare(row.Name, name) })
	switch {
	case after == nil && found:
		rows = slices.Delete(rows, i, i+1)
	case after != nil && found:
		rows[i] = d
	case after != nil:
		rows = slices.Insert(rows, i, d)
	}
	if c.mu.groups[d.Group] = rows; len(rows) == 0 {
		delete(c.mu.groups, d.Group)
	}
	if len(c.mu.byName) == 0 {
		// Maps do not shrink by themselves.
		c.mu.byName, c.mu.groups, c.interner = map[string]*Definition{}, map[string][]*Definition{}, interner{}
	}
}

// advance records the position in the log that the rows have reached.
func (c *Catalog) advance(at cache.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.applied = at
	close(c.mu.advanced)
	c.mu.advanced = make(chan struct{})
}

// CatchUp waits until the rows are as new as the cache was when CatchUp was called. Before the
// catalog is synced it does not wait. Its error is the context's or the log's.
func (c *Catalog) CatchUp(ctx context.Context) error {
	if !c.Synced() {
		return nil
	}
	end, _, err := c.store.Resource().Log().Since(math.MaxInt64)
	if err != nil {
		return err
	}
	for {
		c.mu.RLock()
		applied, advanced := c.mu.applied, c.mu.advanced
		c.mu.RUnlock()
		if applied >= end {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
