package storage_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// The tests of this file run the suite that Kubernetes runs on its own implementations
// of storage.Interface. docs/storage-contract.md lists the functions that do not run,
// with the reasons.

// contract is one function of the suite, which runs on a fixture of its own.
type contract struct {
	name string
	run  func(context.Context, *testing.T, *fixture)
}

// withStore adapts a function that needs nothing but a store.
func withStore(name string, run func(context.Context, *testing.T, apistorage.Interface)) contract {
	return contract{name, func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, f) }}
}

// withCalls adapts a function that counts what a list reads. The counts are ignored:
// those of Kubernetes' etcd storage do not apply to a cache.
func withCalls(name string, run func(context.Context, *testing.T, apistorage.Interface, storagetesting.CallsValidation)) contract {
	return contract{name, func(ctx context.Context, t *testing.T, f *fixture) {
		run(ctx, t, f, func(*testing.T, uint64, uint64) {})
	}}
}

func runAll(t *testing.T, all []contract) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(context.Background(), t, newFixture(t, setup{}))
		})
	}
}

// checkStored checks that the object in etcd is encrypted and has no resource version.
func (f *fixture) checkStored(ctx context.Context, t *testing.T, key string) {
	resp, err := f.client.KV.Get(ctx, pathPrefix+key)
	must(t, err)
	if len(resp.Kvs) != 1 {
		t.Fatalf("etcd holds %d objects at %s, want 1", len(resp.Kvs), key)
	}
	encoded, ok := bytes.CutPrefix(resp.Kvs[0].Value, []byte(storedPrefix))
	if !ok {
		t.Fatalf("%s is not encrypted: %q", key, resp.Kvs[0].Value)
	}
	decoded, err := runtime.Decode(podCodec(), encoded)
	must(t, err)
	if pod := decoded.(*example.Pod); pod.ResourceVersion != "" || pod.SelfLink != "" {
		t.Errorf("stored resource version is %q, self link is %q, want neither", pod.ResourceVersion, pod.SelfLink)
	}
}

func TestContractWrite(t *testing.T) {
	runAll(t, []contract{
		{"Create", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCreate(ctx, t, f, f.checkStored)
		}},
		withStore("CreateWithTTL", storagetesting.RunTestCreateWithTTL),
		withStore("CreateWithKeyExist", storagetesting.RunTestCreateWithKeyExist),
		withStore("UnconditionalDelete", storagetesting.RunTestUnconditionalDelete),
		withStore("ConditionalDelete", storagetesting.RunTestConditionalDelete),
		withStore("DeleteWithSuggestion", storagetesting.RunTestDeleteWithSuggestion),
		withStore("DeleteWithSuggestionAndConflict", storagetesting.RunTestDeleteWithSuggestionAndConflict),
		withStore("DeleteWithConflict", storagetesting.RunTestDeleteWithConflict),
		withStore("DeleteWithSuggestionOfDeletedObject", storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
		withStore("ValidateDeletionWithSuggestion", storagetesting.RunTestValidateDeletionWithSuggestion),
		withStore("ValidateDeletionWithOnlySuggestionValid", storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
		withStore("PreconditionalDeleteWithSuggestion", storagetesting.RunTestPreconditionalDeleteWithSuggestion),
		withStore("PreconditionalDeleteWithOnlySuggestionPass", storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		{"GuaranteedUpdate", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGuaranteedUpdate(ctx, t, rekeyedStore{f}, f.checkStored)
		}},
		withStore("GuaranteedUpdateWithTTL", storagetesting.RunTestGuaranteedUpdateWithTTL),
		{"GuaranteedUpdateChecksStoredData", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, rekeyedStore{f})
		}},
		withStore("GuaranteedUpdateWithConflict", storagetesting.RunTestGuaranteedUpdateWithConflict),
		withStore("GuaranteedUpdateWithSuggestionAndConflict", storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		withStore("DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError", func(ctx context.Context, t *testing.T, s apistorage.Interface) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, s)
		}),
		{"DeleteWithConflictAndMissingExpectedTransformOrDecodeError", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, f, f.transformer.setFailing)
		}},
		{"DeleteExpectedTransformOrDecodeError", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, f, f.transformer.setFailing)
		}},
	})
}

func TestContractRead(t *testing.T) {
	runAll(t, []contract{
		withStore("KeySchema", storagetesting.RunTestKeySchema),
		withStore("ListPaging", storagetesting.RunTestListPaging),
		withStore("GetListRecursivePrefix", storagetesting.RunTestGetListRecursivePrefix),
		withStore("NamespaceScopedList", storagetesting.RunTestNamespaceScopedList),
		withCalls("ListContinuation", storagetesting.RunTestListContinuation),
		withCalls("ListPaginationRareObject", storagetesting.RunTestListPaginationRareObject),
		withCalls("ListContinuationWithFilter", storagetesting.RunTestListContinuationWithFilter),
		{"List", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestList(ctx, t, f, f.compact, true, f.recorder())
		}},
		{"ConsistentList", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestConsistentList(ctx, t, f, f.increaseRV, true, true, true)
		}},
		{"GetListNonRecursive", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, f.increaseRV, f)
		}},
		{"ListInconsistentContinuation", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, alwaysLimitedStore{f}, f.compact)
		}},
		{"CompactRevision", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCompactRevision(ctx, t, f, f.increaseRV, f.compact)
		}},
		{"ListResourceVersionMatch", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListResourceVersionMatch(ctx, t, etcdRekeyedStore{f})
		}},
	})
}

func TestContractWatch(t *testing.T) {
	runAll(t, []contract{
		withStore("Watch", storagetesting.RunTestWatch),
		{"WatchFromZero", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchFromZero(ctx, t, f, f.compactAndReload)
		}},
		withStore("DeleteTriggerWatch", storagetesting.RunTestDeleteTriggerWatch),
		withStore("WatchFromNonZero", storagetesting.RunTestWatchFromNonZero),
		withStore("DelayedWatchDelivery", storagetesting.RunTestDelayedWatchDelivery),
		{"WatchError", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchError(ctx, t, rekeyedStore{f})
		}},
		withStore("WatchContextCancel", storagetesting.RunTestWatchContextCancel),
		withStore("WatcherTimeout", storagetesting.RunTestWatcherTimeout),
		withStore("WatchDeleteEventObjectHaveLatestRV", storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
		withStore("WatchInitializationSignal", storagetesting.RunTestWatchInitializationSignal),
		withStore("ClusterScopedWatch", storagetesting.RunTestClusterScopedWatch),
		withStore("NamespaceScopedWatch", storagetesting.RunTestNamespaceScopedWatch),
		{"WatchDispatchBookmarkEvents", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, f, true)
		}},
		withStore("OptionalWatchBookmarksWithCorrectResourceVersion", storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
		withStore("SendInitialEventsBackwardCompatibility", storagetesting.RunSendInitialEventsBackwardCompatibility),
		{"WatchErrorIsBlockingFurtherEvents", func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(ctx, t, rekeyedStore{f})
		}},
	})
}

func TestContractProgressNotify(t *testing.T) {
	t.Parallel()
	config := testserver.NewTestConfig(t)
	config.WatchProgressNotifyInterval = time.Second
	f := newFixture(t, setup{etcd: config})
	storagetesting.RunOptionalTestProgressNotify(context.Background(), t, f, f.increaseRV)
}

// TestContractGet reads an object that lives for a second, so it does not run in parallel
// with tests that could delay it.
func TestContractGet(t *testing.T) {
	storagetesting.RunTestGet(context.Background(), t, newFixture(t, setup{}))
}

// The tests below set a feature gate, which holds for the whole process. So no other
// test may run at the same time.

func TestContractWatchSemantics(t *testing.T) {
	storagetesting.RunWatchSemantics(context.Background(), t, caughtUpStore{newFixture(t, setup{})})
}

func TestContractWatchSemanticInitialEventsExtended(t *testing.T) {
	storagetesting.RunWatchSemanticInitialEventsExtended(context.Background(), t, caughtUpStore{newFixture(t, setup{})})
}

func TestContractWatchListMatchSingle(t *testing.T) {
	storagetesting.RunWatchListMatchSingle(context.Background(), t, caughtUpStore{newFixture(t, setup{})})
}

func TestContractWatchWithUnsafeDelete(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, true)
	storagetesting.RunTestWatchWithUnsafeDelete(context.Background(), t, rekeyedCaughtUpStore{rekeyedStore{newFixture(t, setup{})}}, errDecrypt)
}

// TestContractTransformationFailure expects the error of the first object that cannot be
// read, without others.
func TestContractTransformationFailure(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, false)
	storagetesting.RunTestTransformationFailure(context.Background(), t, rekeyedStore{newFixture(t, setup{})})
}

func TestContractStats(t *testing.T) {
	for _, sizes := range []bool{true, false} {
		t.Run(fmt.Sprintf("sizes=%v", sizes), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.SizeBasedListCostEstimate, sizes)
			f := newFixture(t, setup{})
			// Objects are measured decrypted, so no transformer applies.
			storagetesting.RunTestStats(context.Background(), t, f, podCodec(), identity.NewEncryptCheckTransformer(), sizes)
		})
	}
}
