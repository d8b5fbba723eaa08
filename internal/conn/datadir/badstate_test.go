package datadir_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/conn/datadir"
)

// TestBadState damages one file at a time. The error names the file and the remedy, and
// no file changes, although the leafs have expired.
func TestBadState(t *testing.T) {
	type paths = datadir.Paths
	truncate := func(t *testing.T, file string) {
		data := read(t, file)
		writeFile(t, file, string(data[:len(data)/2]), 0o600)
	}
	for name, test := range map[string]struct {
		damage func(t *testing.T, own, foreign paths)
		parts  []string
	}{
		"ca.crt empty":          {func(t *testing.T, p, _ paths) { writeFile(t, p.CACert, "", 0o600) }, []string{"ca.crt", "restore", "remove"}},
		"ca.crt truncated":      {func(t *testing.T, p, _ paths) { truncate(t, p.CACert) }, []string{"ca.crt", "restore", "remove"}},
		"ca.crt bundle cut":     {func(t *testing.T, p, _ paths) { appendHalf(t, p.CACert) }, []string{"ca.crt", "damaged", "restore"}},
		"ca.crt a leaf":         {func(t *testing.T, p, _ paths) { leafAsAuthority(t, p) }, []string{"ca.crt", "not the certificate of an authority", "restore"}},
		"ca.crt unreadable":     {func(t *testing.T, p, _ paths) { asDirectory(t, p.CACert) }, []string{"ca.crt", "cannot read", "restore"}},
		"ca.crt lost":           {func(t *testing.T, p, _ paths) { remove(t, p.CACert, p.CAKey) }, []string{"ca.crt is missing", "restore", "ca.key", "remove"}},
		"ca.crt foreign":        {func(t *testing.T, p, f paths) { copyFile(t, p.CACert, f.CACert) }, []string{"ca.key", "does not belong to", "restore"}},
		"ca foreign":            {func(t *testing.T, p, f paths) { copyFile(t, p.CACert, f.CACert); copyFile(t, p.CAKey, f.CAKey) }, []string{"apiserver.crt was not issued by", "ca.crt", "remove it", "restore"}},
		"ca.key garbage":        {func(t *testing.T, p, _ paths) { writeFile(t, p.CAKey, "key", 0o600) }, []string{"ca.key", "no private key", "restore"}},
		"front-proxy-ca.key":    {func(t *testing.T, p, f paths) { copyFile(t, p.FrontProxyCAKey, f.FrontProxyCAKey) }, []string{"front-proxy-ca.key", "restore"}},
		"apiserver.crt garbage": {func(t *testing.T, p, _ paths) { writeFile(t, p.ServingCert, "\x00\x01", 0o600) }, []string{"apiserver.crt", "PEM", "remove it"}},
		"apiserver.crt foreign": {func(t *testing.T, p, f paths) {
			copyFile(t, p.ServingCert, f.ServingCert)
			copyFile(t, p.ServingKey, f.ServingKey)
		}, []string{"apiserver.crt was not issued by", "remove it"}},
		"apiserver.crt for clients": {func(t *testing.T, p, _ paths) { clientAsServer(t, p) }, []string{"apiserver.crt was issued for another use", "remove it"}},
		"apiserver.key truncated":   {func(t *testing.T, p, _ paths) { truncate(t, p.ServingKey) }, []string{"apiserver.key", "remove"}},
		"apiserver.key other":       {func(t *testing.T, p, f paths) { copyFile(t, p.ServingKey, f.ServingKey) }, []string{"apiserver.key does not belong to", "apiserver.crt", "remove"}},
		"apiserver.key lost":        {func(t *testing.T, p, _ paths) { remove(t, p.ServingKey) }, []string{"apiserver.key is missing", "restore", "remove"}},
		"front-proxy-client.crt":    {func(t *testing.T, p, _ paths) { truncate(t, p.FrontProxyClientCert) }, []string{"front-proxy-client.crt", "remove"}},
		"sa.key truncated":          {func(t *testing.T, p, _ paths) { truncate(t, p.ServiceAccountKey) }, []string{"sa.key", "restore", "remove", "tokens"}},
		"sa.key lost":               {func(t *testing.T, p, _ paths) { remove(t, p.ServiceAccountKey) }, []string{"sa.key is missing", "restore", "tokens"}},
		"sa.pub garbage":            {func(t *testing.T, p, _ paths) { writeFile(t, p.ServiceAccountPub, "pub", 0o600) }, []string{"sa.pub", "remove it"}},
		"sa.pub other":              {func(t *testing.T, p, f paths) { copyFile(t, p.ServiceAccountPub, f.ServiceAccountPub) }, []string{"sa.pub does not hold", "sa.key", "remove it"}},
		"admin.kubeconfig empty":    {func(t *testing.T, p, _ paths) { writeFile(t, p.AdminKubeconfig, "", 0o600) }, []string{"admin.kubeconfig", "remove it"}},
		"admin.kubeconfig garbage":  {func(t *testing.T, p, _ paths) { writeFile(t, p.AdminKubeconfig, "a: [", 0o600) }, []string{"admin.kubeconfig is not a kubeconfig", "remove it"}},
		"admin.kubeconfig foreign":  {func(t *testing.T, p, f paths) { copyFile(t, p.AdminKubeconfig, f.AdminKubeconfig) }, []string{"admin.kubeconfig was not issued by", "remove it"}},
		"admin.kubeconfig key":      {func(t *testing.T, p, f paths) { otherKey(t, p, f) }, []string{"admin.kubeconfig", "belong together", "remove"}},
		"scheduler.kubeconfig":      {func(t *testing.T, p, _ paths) { otherName(t, p) }, []string{"scheduler.kubeconfig", "millrace-admin", "remove it"}},
	} {
		t.Run(name, func(t *testing.T) {
			own, foreign := makeFiles(t), makeFiles(t)
			test.damage(t, own, foreign)
			before := content(t, own.Root)
			report, err := restart(t, own, 400*day, datadir.Hosts{Port: 7443})
			wantError(t, err, datadir.ErrBadState, append(test.parts, own.Root)...)
			wantWritten(t, report)
			wantUnchanged(t, own.Root, before)
		})
	}
}

// appendHalf appends half of a certificate to a whole one.
func appendHalf(t *testing.T, file string) {
	data := read(t, file)
	writeFile(t, file, string(data)+string(data[:len(data)/2]), 0o600)
}

func leafAsAuthority(t *testing.T, p datadir.Paths) {
	copyFile(t, p.CACert, p.ServingCert)
	copyFile(t, p.CAKey, p.ServingKey)
}

func asDirectory(t *testing.T, file string) {
	remove(t, file)
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
}

func clientAsServer(t *testing.T, p datadir.Paths) {
	admin := loadAccount(t, p.AdminKubeconfig)
	writeFile(t, p.ServingCert, string(admin.cert), 0o600)
	writeFile(t, p.ServingKey, string(admin.key), 0o600)
}

func otherKey(t *testing.T, own, foreign datadir.Paths) {
	config := loadConfig(t, own.AdminKubeconfig)
	config.AuthInfos["millrace-admin"].ClientKeyData = loadAccount(t, foreign.AdminKubeconfig).key
	if err := clientcmd.WriteToFile(*config, own.AdminKubeconfig); err != nil {
		t.Fatal(err)
	}
}

// otherName puts the admin's certificate into the scheduler's kubeconfig.
func otherName(t *testing.T, p datadir.Paths) {
	admin, config := loadAccount(t, p.AdminKubeconfig), loadConfig(t, p.SchedulerKubeconfig)
	user := config.AuthInfos["system:kube-scheduler"]
	user.ClientCertificateData, user.ClientKeyData = admin.cert, admin.key
	if err := clientcmd.WriteToFile(*config, p.SchedulerKubeconfig); err != nil {
		t.Fatal(err)
	}
}

func TestBadTimes(t *testing.T) {
	paths := makeFiles(t)
	before := content(t, paths.Root)
	_, err := restart(t, paths, 3651*day, datadir.Hosts{})
	wantError(t, err, datadir.ErrBadState, "ca.crt expired on 2039-12-30", "restore", "remove")
	_, err = restart(t, paths, -day, datadir.Hosts{})
	wantError(t, err, datadir.ErrBadState, "ca.crt is valid only from 2029-12-31", "clock")
	wantUnchanged(t, paths.Root, before)
}

func TestLeafFromTheFuture(t *testing.T) {
	paths := makeFiles(t)
	if _, err := restart(t, paths, 400*day, datadir.Hosts{}); err != nil {
		t.Fatal(err)
	}
	before := content(t, paths.Root)
	_, err := restart(t, paths, 390*day, datadir.Hosts{})
	wantError(t, err, datadir.ErrBadState, "apiserver.crt is valid only from 2031-02-04", "clock", "remove it")
	wantUnchanged(t, paths.Root, before)
}

func TestMissingAuthorityKey(t *testing.T) {
	paths := makeFiles(t)
	remove(t, paths.CAKey, paths.FrontProxyCAKey)
	before := content(t, paths.Root)
	for _, test := range []struct {
		name     string
		after    time.Duration
		hosts    datadir.Hosts
		warnings int
		parts    []string // of the error; none means success
	}{
		{"nothing to issue", 0, datadir.Hosts{}, 0, nil},
		{"near expiry", 340 * day, datadir.Hosts{}, 5, nil},
		{"expired", 400 * day, datadir.Hosts{}, 0, []string{"apiserver.crt expired on", "restore", "ca.key"}},
		{"new name", 0, datadir.Hosts{ExtraHosts: []string{"new"}}, 0, []string{"apiserver.crt does not name new", "restore", "ca.key"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report, err := restart(t, paths, test.after, test.hosts)
			if test.parts != nil {
				wantError(t, err, datadir.ErrBadState, test.parts...)
				wantUnchanged(t, paths.Root, before)
			} else if err != nil {
				t.Fatal(err)
			}
			if len(report.Warnings) != test.warnings {
				t.Errorf("warnings %q, want %d", report.Warnings, test.warnings)
			}
		})
	}
	report, err := restart(t, paths, 0, datadir.Hosts{Port: 7443})
	if err != nil {
		t.Fatal(err)
	}
	wantWritten(t, report, "admin.kubeconfig", "controller-manager.kubeconfig", "scheduler.kubeconfig")
	remove(t, paths.AdminKubeconfig)
	_, err = restart(t, paths, 0, datadir.Hosts{Port: 7443})
	wantError(t, err, datadir.ErrBadState, "cannot issue", "admin.kubeconfig", "restore", "ca.key")
}

// TestRemedies follows the advice of the errors.
func TestRemedies(t *testing.T) {
	paths := makeFiles(t)
	for _, files := range [][]string{
		{paths.ServingCert}, {paths.ServingCert, paths.ServingKey}, {paths.AdminKubeconfig},
		{paths.ServiceAccountKey, paths.ServiceAccountPub}, {paths.CACert},
		{paths.PKI, paths.AdminKubeconfig, paths.ControllerManagerKubeconfig, paths.SchedulerKubeconfig},
	} {
		for _, file := range files {
			if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := restart(t, paths, 0, datadir.Hosts{}); err != nil {
			t.Fatalf("without %s: %v", files, err)
		}
		report, err := restart(t, paths, 0, datadir.Hosts{})
		if err != nil {
			t.Fatalf("after %s: %v", files, err)
		}
		wantWritten(t, report)
	}
}

// TestInterruptedStart checks a start after a first one that ended after each of its
// files.
func TestInterruptedStart(t *testing.T) {
	d := open(t, datadir.Config{Path: t.TempDir(), Now: at(0)})
	order := ensure(t, d, datadir.Hosts{}).Written
	for done := range order {
		root := filepath.Join(t.TempDir(), "data")
		if err := os.MkdirAll(filepath.Join(root, "pki"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, change := range order[:done] {
			name, err := filepath.Rel(d.Paths().Root, change.File)
			if err != nil {
				t.Fatal(err)
			}
			copyFile(t, filepath.Join(root, name), change.File)
		}
		writeFile(t, filepath.Join(root, "pki", ".apiserver.crt.tmp"), "half", 0o600)
		next := open(t, datadir.Config{Path: root, Now: at(0)})
		report := ensure(t, next, datadir.Hosts{})
		if len(report.Written) != len(order)-done {
			t.Errorf("after a crash behind %d files, the next start wrote %v", done, writtenNames(report))
		}
	}
}
