package server

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
)

// lockTimeout is the wait for another process to let go of the database.
const lockTimeout = 2 * time.Second

// errEtcdDamaged says that an embedded etcd's files cannot be what it wrote.
var errEtcdDamaged = errors.New("damaged")

// checkEtcd looks at an embedded etcd's files before etcd opens them. On a file
// that was cut off etcd crashes in a goroutine of its own, which nobody can
// recover, and next to a write-ahead log that lost its end it repairs the log
// and then passes over new writes as if it had them already. It reads the log and
// the heads of the database's pages, which etcd reads next and finds in memory.
func checkEtcd(dataDir string) error {
	database := filepath.Join(dataDir, "member", "snap", "db")
	info, err := os.Stat(database)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // new, or rebuilt from the log; if that is not whole, etcd says so
	}
	if err != nil {
		return fmt.Errorf("read etcd's database: %w", err)
	}
	applied, err := appliedIndex(database, info.Size())
	if err != nil {
		return etcdDamaged(dataDir, database, err)
	}
	if applied == 0 {
		return nil
	}
	logDir := filepath.Join(dataDir, "member", "wal")
	logged, err := loggedIndex(logDir)
	if err != nil {
		return etcdDamaged(dataDir, logDir, err)
	}
	if logged < applied {
		return etcdDamaged(dataDir, logDir, fmt.Errorf("%w: it ends at entry %d, the database at %d", errEtcdDamaged, logged, applied))
	}
	return nil
}

func etcdDamaged(dataDir, file string, err error) error {
	return fmt.Errorf("cannot use %s of the embedded etcd (%w): %s", file, err, remedyEtcd(dataDir))
}

// remedyEtcd is what helps against damage of any kind.
func remedyEtcd(dataDir string) string {
	return "restore " + dataDir + " from a backup or snapshot, or move it away to start with an empty cluster"
}

// appliedIndex is the last log entry that the database holds.
func appliedIndex(file string, size int64) (index uint64, err error) {
	// The file is mapped: reading a part that is missing is a fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errEtcdDamaged, r)
		}
	}()
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return 0, errors.New("another process has it open")
	}
	if err != nil {
		return 0, err
	}
	// The descriptor is all there is to close; after a fault the mapping is left.
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bolt.Tx) error {
		if tx.Size() > size {
			return fmt.Errorf("%w: %d bytes of %d are left", errEtcdDamaged, size, tx.Size())
		}
		// etcd goes through the heads of all pages too, to find the free ones.
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

// loggedIndex is the last entry or snapshot in a write-ahead log. A record that
// is cut off at the end is what a crash leaves, and no error.
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
		if record.Type == wal.CrcType {
			decoder.UpdateCRC(record.Crc)
		}
	}
}

// recordIndex is the index that a record of the log is about, 0 if about none.
func recordIndex(record *walpb.Record) (uint64, error) {
	switch record.Type {
	case wal.EntryType:
		var entry raftpb.Entry
		err := entry.Unmarshal(record.Data)
		return entry.Index, err
	case wal.SnapshotType:
		var snapshot walpb.Snapshot
		err := snapshot.Unmarshal(record.Data)
		return snapshot.Index, err
	}
	return 0, nil
}
