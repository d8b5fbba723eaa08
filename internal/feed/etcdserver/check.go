package etcdserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// lockTimeout bounds the wait for another process to release the database.
const lockTimeout = 2 * time.Second

// errDamaged means that files of the embedded etcd differ from what it wrote.
var errDamaged = errors.New("damaged")

// Check checks the files of the embedded etcd before etcd opens them. etcd
// handles two kinds of damage badly:
//
//   - If the database was cut off, it crashes in a goroutine of its own, where the
//     panic cannot be recovered.
//   - If the write-ahead log lost its end, it repairs the log. Then it skips new
//     writes, because their indexes are at or below the database's.
//
// Check reads the log, and the headers of the database's pages. That costs
// little: etcd reads the same next, and finds it in memory.
func Check(dataDir string) error {
	database := filepath.Join(dataDir, "member", "snap", "db")
	info, err := os.Stat(database)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // it is new, or rebuilt from the log, which etcd then checks itself
	}
	if err != nil {
		return fmt.Errorf("read etcd's database: %w", err)
	}
	applied, err := appliedIndex(database, info.Size())
	if err != nil {
		return damaged(dataDir, database, err)
	}
	if applied == 0 {
		return nil
	}
	logDir := filepath.Join(dataDir, "member", "wal")
	logged, err := loggedIndex(logDir)
	if err != nil {
		return damaged(dataDir, logDir, err)
	}
	if logged < applied {
		return damaged(dataDir, logDir, fmt.Errorf("%w: it ends at entry %d, the database at %d", errDamaged, logged, applied))
	}
	return nil
}

// damaged adds to an error the file and the remedy.
func damaged(dataDir, file string, err error) error {
	return fmt.Errorf("cannot use %s of the embedded etcd (%w): %s", file, err, remedy(dataDir))
}

// remedy returns the advice for damage of any kind.
func remedy(dataDir string) string {
	return "restore " + dataDir + " from a backup or snapshot, or move it away to start with an empty cluster"
}

// appliedIndex returns the index of the last log entry that the database holds, or 0
// if it holds none. size is the file's size.
func appliedIndex(file string, size int64) (index uint64, err error) {
	// The file is mapped: reading after its end is a fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return 0, errors.New("another process has it open")
	}
	if err != nil {
		return 0, err
	}
	// Close also works after a fault, but leaves the mapping.
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bolt.Tx) error {
		if tx.Size() > size {
			return fmt.Errorf("%w: %d bytes of %d are left", errDamaged, size, tx.Size())
		}
		// This reads the headers of all pages, as etcd does to find the free ones.
		if err := tx.ForEach(func(_ []byte, b *bolt.Bucket) error { b.Stats(); return nil }); err != nil {
			return err
		}
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			if value := meta.Get([]byte("consistent_index")); len(value) == 8 {
				index = binary.BigEndian.Uint64(value)
			}
		}
		return nil
	})
	return index, err
}

// loggedIndex returns the index of the last entry or snapshot in a write-ahead log.
// A record that is cut off at the end is no error: a crash leaves such a record.
func loggedIndex(dir string) (uint64, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return 0, err
	}
	var readers []fileutil.FileReader
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		defer file.Close()
		readers = append(readers, fileutil.NewFileReader(file))
	}
	var last uint64
	var record walpb.Record
	decoder := wal.NewDecoder(readers...)
	for {
		err := decoder.Decode(&record)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return last, nil
		}
		if err != nil {
			return 0, err
		}
		index, err := recordIndex(&record)
		if err != nil {
			return 0, err
		}
		last = max(last, index)
		if record.GetType() == wal.CrcType {
			decoder.UpdateCRC(record.GetCrc())
		}
	}
}

// recordIndex returns the index of the entry or snapshot in a record, or 0 if the
// record is of another type.
func recordIndex(record *walpb.Record) (uint64, error) {
	switch record.GetType() {
	case wal.EntryType:
		var entry raftpb.Entry
		err := proto.Unmarshal(record.GetData(), &entry)
		return entry.GetIndex(), err
	case wal.SnapshotType:
		var snapshot walpb.Snapshot
		err := proto.Unmarshal(record.GetData(), &snapshot)
		return snapshot.GetIndex(), err
	}
	return 0, nil
}
