# Attempts on `python -m heed`, read by test_hostile.py: what stands before the first heading comes before each of them.
# `try STATUS command` must end with this status and without a traceback; `says WORDS` must find a regular expression
# in what it said, `keeps WORDS` must not; `brief`: in at most three lines; `is CONDITION` must hold; `ends STATUS` waits
# for what was started last. An attempt with a number repeats a defect that an earlier version had.

export PYTHONPATH=$LIBRARY PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
unset RANK WORLD_SIZE PYTHONUTF8 LC_ALL
heed() { "$PYTHON" -m heed "$@"; }
start() { "$PYTHON" -m heed "$@" <&0 >out 2>err & }
fail() { echo "FAILED: $*"; tail -n 6 out err; exit 9; }
try() {
    want=$1; shift
    "$@" >out 2>err; got=$?
    cat out err >>all
    ! grep -q Traceback err || fail "a traceback: $*"
    [ $got = $want ] || fail "status $got, not $want: $*"
}
says() { grep -Eq -- "$1" out err || fail "not said: $1"; }
keeps() { ! grep -Eq -- "$1" out err || fail "said: $1"; }
brief() { [ $(wc -l <err) -le 3 ] || fail "more than three lines"; }
is() { test "$@" || fail "test $*"; }
ends() { wait $!; got=$?; [ $got = $1 ] || fail "status $got, not $1"; }
works() { echo drei | heed translate ${1:-D} 2>/dev/null | grep -qx three || fail "${1:-D} does not translate"; }
flip() { "$PYTHON" -c "
import sys
data = bytearray(open('$1', 'rb').read()); data[$2] ^= 1 << $3; open('$1', 'wb').write(data)"; }
log_has() { for i in $(seq 900); do grep -q "$2" "$1/log.jsonl" 2>/dev/null && return; sleep 0.1; done; fail "no $2 in $1"; }
gone() { for i in $(seq 50); do kill -0 $1 2>/dev/null || return 0; sleep 0.1; done; fail "$1 lives on"; }
long="--set training.updates=100000 --set training.every=100000"
many() { for i in $(seq 3000); do cat a.de; done; }
children() { for i in $(seq 300); do found=$(pgrep -P $1) && [ $(echo $found | wc -w) = 2 ] && echo $found && return; sleep 0.1; done; }

#### 1 workers end with their parent
many >big; start translate D --workers 2 --beam 8 <big; workers=$(children $!); is -n "$workers"
kill -TERM $!; for worker in $workers; do gone $worker; done

#### 1 workers end with their parent that is killed
many >big; start translate D --workers 2 --beam 8 <big; workers=$(children $!); is -n "$workers"
kill -KILL $!; for worker in $workers; do gone $worker; done

#### 2 a worker that is killed
many >big; start translate D --workers 2 --beam 8 <big; kill -KILL $(children $!); ends 1; says 'signal SIGKILL'; brief

#### 4 more updates
try 0 heed train r.toml --to D --set training.updates=65; says 'updates was 60 and is 65'; says 'from step 60'
grep -q 'updates = 65' D/recipe.toml; works

#### 4 other micro-batches, patience, minutes
try 0 heed train r.toml --to D --set training.micro_batches=3 --set training.minutes=9 \
    --set training.updates=62 --set training.patience=9; says 'from step 60'; works

#### 9 a rank without a world
try 0 env RANK=1 "$PYTHON" -m heed train r.toml --to E; works E

#### 9 a world without a rank
try 1 env WORLD_SIZE=2 "$PYTHON" -m heed train r.toml --to E; says torchrun; brief

#### 10 a child does not hold the lock
"$PYTHON" - <<'END' &
import os, sys, time
from heed.engine.folder import locked
held = locked(__import__("pathlib").Path("D"))
if os.fork() == 0:
    time.sleep(60)
os._exit(0)
END
        sleep 6; try 0 heed train r.toml --to D --set training.updates=61; says 'from step 60'

#### 14 broken text is exported as it is
try 0 heed export D --to ctranslate2 --folder X
printf 'drei\nf\xfcnf\nvier \xf0\x9f\x90\n' >odd
try 0 heed translate D <odd; cp out ours; try 0 heed translate X <odd; cmp ours out || fail differs

#### no home, no network
unset HEED_DATA HOME
try 1 env -u HOME HEED_CACHE=/proc/none "$PYTHON" -m heed evaluate D --test multi30k; says 'HEED_CACHE|fetched'

#### 20 a cut checkpoint
truncate -s 1999 D/checkpoint.pt
try 1 heed train r.toml --to D --set training.updates=70; says 'is cut'; says 'not deleted'; brief
mv D/checkpoint.pt D/cut.pt; sum=$(md5sum <D/model.safetensors)
try 0 heed train r.toml --to D --set training.updates=5; says 'earlier-1'
is "$sum" = "$(md5sum <D/earlier-1/model.safetensors)"; is -f D/earlier-1/best.pt
is -f D/earlier-1/snapshots/000000060.pt; works D/earlier-1

#### 20 the average of a model and no checkpoint
try 1 heed average D D/model.safetensors; keeps '[Rr]emove'; brief
try 1 heed average D r.toml; keeps '[Rr]emove'; works

#### 21 a terminal that is closed
start train r.toml --to E $long; log_has E '"loss"'; kill -HUP $!; ends 129
says 'holds all'; try 0 heed train r.toml --to E --set training.updates=3 --set training.every=100000
says 'from step [1-9]'

#### 21 nohup
nohup "$PYTHON" -m heed train r.toml --to E --set training.updates=900 >out 2>err & log_has E '"loss"'
kill -HUP $!; ends 0; works E

#### 22 a reader who leaves
heed train r.toml --to E | head -1; works E

#### 22 nobody reads at all
heed train r.toml --to E 2>&1 | true; works E

#### 23 one bit in a checkpoint
n=$(stat -c %s D/checkpoint.pt)
for at in 100 $((n / 3)) $((n / 2)) $((2 * n / 3)) $((n - 50)) $((n - 5)); do
    cp D/checkpoint.pt whole; flip D/checkpoint.pt $at 3
    try 1 heed train r.toml --to D --set training.updates=61; says 'damaged|is cut'; brief; mv whole D/checkpoint.pt
done

#### 23 one bit in the weights
n=$(stat -c %s D/model.safetensors)
for at in $((n / 5)) $((n / 2)) $((4 * n / 5)) $((n - 1)); do
    cp D/model.safetensors whole; flip D/model.safetensors $at 3
    try 1 heed translate D <a.de; says damaged; brief; mv whole D/model.safetensors
done; works

#### 24 threads
try 0 heed train r.toml --to E --threads 1; works E; try 2 heed train r.toml --to F --threads 0

#### 25 a first attempt that fails
(ulimit -v 6000000; try 1 heed train r.toml --to E --set model.d_model=8192; says 'too large|memory'; brief) || exit 9
try 0 heed train r.toml --to E; works E; is ! -e E/earlier-1

#### 26 killed before the first stop
start train r.toml --to E --set training.updates=100000; log_has E validation; sleep 1; kill -KILL $!
sleep 1; try 1 heed translate E <a.de; says '--weights'; brief
for which in last best E/snapshots/*.pt; do try 0 heed translate E --weights $which <a.de; done
try 0 heed average E; try 0 heed translate E-average <a.de

#### 27 no sub-words
rm D/subwords.json; try 0 heed train r.toml --to D --set training.updates=61; works

#### 28 a hundred thousand micro-batches
start train r.toml --to E --set training.micro_batches=100000 $long; log_has E '"loss"'
kill -TERM $!; s=$SECONDS; ends 143; is $((SECONDS - s)) -lt 10

#### 29 a model as large as a house
for set in model.d_model=65536 model.n_layers=100000000 model.d_model=99999999999999999999 model.d_ff=1000000000000 \
    model.n_heads=99999999 data.vocabulary=9999999999999; do
    s=$SECONDS; try 1 heed train r.toml --to E --set $set; brief; is $((SECONDS - s)) -lt 12; is ! -e E
done; try 1 heed train r.toml --to E --set model.d_model=65536 --set model.n_layers=1000; says 'too large.*GB'

#### 30 no memory for a beam
many | head -3000 >big; ulimit -v 4500000
try 1 heed translate D --beam 1000 <big; says 'memory|thread'; brief

#### 31 words on one side alone
yes '' | head -16 >b.en; try 1 heed train r.toml --to E --set 'data.train=["a.de", "b.en"]'; says 'empty|both sides'
try 1 heed train r.toml --to E --set 'data.val=["a.de", "b.en"]'; brief
(yes '' | head -15; echo x) >b.en; (cat a.de | head -15; echo) >b.de
try 1 heed train r.toml --to E --set 'data.val=["b.de", "b.en"]'; says 'both sides'; is ! -e E

#### 31 numbers beyond all numbers
huge=1$(printf '%0400d' 0); more=1$(printf '%05000d' 0)
for value in 1e308 $huge $more nan; do try 1 heed train r.toml --to E --set training.lr=$value; brief; is ! -e E; done
try 0 heed train r.toml --to E --set training.lr=1e-320; says 'nothing was learnt'
try 1 heed train r.toml --to F --set training.seed=99999999999999999999; says seed
try 1 heed train r.toml --to F --set training.minutes=$huge; says minutes

#### 31 brackets
{ echo '[data]'; printf 'train = '; printf '%05000d' 0 | tr 0 '['; } >deep.toml
try 1 heed train deep.toml --to E; says deeply; brief

#### 31 a log that is none
printf '[1]\n{"step": null}\n"x"\n7\n\377\n' >>D/log.jsonl
try 0 heed train r.toml --to D --set training.updates=61; works; try 0 heed plot D

#### 31 closed streams
try 0 heed translate D <&-; (heed translate D <a.de >&-) 2>err; is $? = 1; says 'standard output is closed'
(heed translate D 2>&- <a.de >out); grep -q three out; (heed train r.toml --to E >&- 2>&- <&-); works E

#### 31 a full output
(heed translate D <a.de >/dev/full) 2>err; is $? = 1; says 'could not be written: No space left'; brief
(heed train r.toml --to E >/dev/full) 2>err; works E

#### 31 Ctrl-C in the first second
for after in 0.15 0.3 0.5 0.8 1.2 1.6 2.2; do
            setsid "$PYTHON" -c "
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.executable, [sys.executable, '-m', 'heed', 'train', 'r.toml', '--to', 'E$after', '--set',
                          'training.updates=100000'])" >out 2>err &
            sleep $after; kill -INT $!; wait $!; got=$?; ! grep -q Traceback err || fail "after $after"
            is $got = 130 || is $got = 143 || fail "status $got after $after"
        done

#### 32 a Latin-1 folder
name=$(printf 'gr\xf6\xdfe'); try 0 heed train r.toml --to "$name"; says 'The model is in'; works "$name"
mkdir "$name.d"; cp a.de a.en "$name.d"
try 1 heed train r.toml --to E --set "data.train=[\"$name.d/a.de\", \"$name.d/a.en\"]"; says 'not UTF-8'; brief

#### 32 a locale without umlauts
try 0 env LC_ALL=C PYTHONUTF8=0 "$PYTHON" -m heed train r.toml --to größe; says größe
echo fünf | LC_ALL=C PYTHONUTF8=0 heed translate größe | grep -qx five

#### 33 a full disk
(ulimit -f 20; trap '' XFSZ; try 1 heed average D --to M) || exit 9; is ! -e M; is -z "$(ls -d M* 2>/dev/null)"
try 0 heed average D --to M; works M
(ulimit -f 20; trap '' XFSZ; try 1 heed export D --to ctranslate2 --folder X) || exit 9; is ! -e X
try 0 heed export D --to ctranslate2 --folder X

#### 34 a page over a model
try 1 heed show D zwei --to D/model.safetensors; says 'no page'; works
try 0 heed show D zwei --to page.html; try 0 heed show D drei --to page.html; grep -q drei page.html

#### 35 a rate that is none
try 0 heed train r.toml --to E --set training.lr=1000; says 'nothing was learnt'

#### 35 no time at all
try 0 heed train r.toml --to E --set training.minutes=1e-300; says 'not one update'

#### 36 a file in the place of a folder
try 1 heed train r.toml --to r.toml; says 'File exists'; keeps Errno; brief

#### 36 other sentences
sed -i 's/seven/eleven/' a.en; try 1 heed train r.toml --to D; says 'sentences .* are others'; brief

#### 36 a binary file
head -c 300000 "$PYTHON" >binary; try 0 heed translate D <binary; [ $(wc -l <err) -le 5 ] || fail lines
is $(wc -l <out) -ge $(wc -l <binary)

#### 36 pipes for recipes
try 0 heed train <(cat r.toml) --to E; works E; try 0 heed train - --to F <r.toml; works F
try 1 heed train - <r.toml; says '--to'

#### 36 a name for the shell
try 0 heed train r.toml --to 'my model'; says "translate 'my model'"

#### 36 an exported folder
try 0 heed export D --to ctranslate2 --folder X; works X

#### 36 a folder that is removed
start train r.toml --to E $long --set training.checkpoint_minutes=0.02; log_has E '"loss"'
rm -rf E; ends 1; says 'no folder'; keeps 'Make room'

#### 36 a mistyped word under torchrun
"$PYTHON" -m torch.distributed.run --standalone --nproc-per-node=2 -m heed train r.toml --nix >out 2>err
is $(grep -c 'unrecognized arguments' err) = 1

#### 36 one pair
head -1 a.de >one.de; head -1 a.en >one.en; try 0 heed evaluate D --test one.de one.en; says 'no interval'

#### no words at all
try 2 heed; says usage

#### an unknown command
try 2 heed tarin r.toml; says 'invalid choice'

#### the version
try 0 heed --version; says '[0-9]'

#### the help of everything
for c in train translate evaluate average export show plot keys; do try 0 heed $c --help; done; try 0 heed keys

#### a recipe that is a folder
try 1 heed train D --to E; brief

#### a recipe that is a model
try 1 heed train D/model.safetensors --to E; says 'TOML'; brief

#### an empty recipe
: >e.toml; try 1 heed train e.toml --to E; says 'data. train is missing'; brief

#### a recipe in UTF-16
iconv -t utf-16 r.toml >u.toml; try 1 heed train u.toml --to E; says UTF-8; brief

#### a recipe with Windows' line ends
sed 's/$/\r/' r.toml >w.toml; try 0 heed train w.toml --to E; works E

#### a recipe that may not be read
cp r.toml n.toml; chmod 000 n.toml; test -r n.toml || { try 1 heed train n.toml --to E; says denied; brief; }

#### a recipe's section that is a list
try 1 heed train r.toml --set 'model=[1]' --to E; brief

#### keys that are no keys
for set in a=b a.b=c model.=3 .d_model=3 =3 model.d_model training.updates=0 training.updates=-1 \
    training.updates=1.5 training.keep=-1 training.every=0 model.dropout=1 training.warmup=2 data.train=x \
    'data.train=["a.de"]' 'data.train=[1, 2]' model.norm=mid training.precision=fp8; do
    try 1 heed train r.toml --to E --set "$set"; brief; is ! -e E
done

#### sentences that are missing
rm a.en; try 1 heed train r.toml --to E; says 'a.en cannot be read'; brief

#### sentences that are a folder
rm a.en; mkdir a.en; try 1 heed train r.toml --to E; says 'a.en cannot be read'; brief

#### sentences of another length
echo x >>a.en; try 1 heed train r.toml --to E; says '16 lines and .* 17'; brief

#### sentences in Latin-1
iconv -t latin1 a.de >l.de; mv l.de a.de; try 1 heed train r.toml --to E; says 'not UTF-8'

#### empty sentences
: >a.de; try 1 heed train r.toml --to E; says 'is empty'; brief

#### a vocabulary too small
try 1 heed train r.toml --to E --set data.vocabulary=265; says 'no room'; brief

#### sentences longer than a batch
try 1 heed train r.toml --to E --set training.tokens=2; says 'None of'; brief

#### a folder of somebody else
mkdir E; echo mine >E/thesis; try 1 heed train r.toml --to E; test "$(cat E/thesis)" = mine

#### a folder that may not be written
mkdir E; chmod 500 E; touch E/x 2>/dev/null || { try 1 heed train r.toml --to E; brief; }; chmod 700 E

#### a folder under a file
try 1 heed train r.toml --to r.toml/E; says 'Not a directory'; brief

#### a folder whose name is long
try 1 heed train r.toml --to $(printf '%0300d' 0); says 'too long'; brief

#### two trainings in one folder
start train r.toml --to E $long; log_has E '"loss"'
try 1 heed train r.toml --to E $long; says 'Another run'; brief
try 1 heed train r.toml --to E --set training.lr=0.5 $long; says 'Another run'; kill -TERM $!; ends 143

#### killed and resumed is left alone
start train r.toml --to E --set training.updates=300 --set model.dropout=0.2
log_has E validation; kill -KILL $!; wait $!
try 0 heed train r.toml --to E --set training.updates=300 --set model.dropout=0.2; says 'from step'
try 0 heed train r.toml --to F --set training.updates=300 --set model.dropout=0.2
cmp E/model.safetensors F/model.safetensors || fail 'not the same'

#### stopped ten times
for i in 1 2 3 4 5 6 7 8 9 10; do
    start train r.toml --to E --set training.updates=2000; pid=$!
    for j in $(seq 300); do grep -q Training out && break; sleep 0.1; done; sleep 0.$i
    kill -TERM $pid; wait $pid; got=$?; is $got = 143 || is $got = 0 || fail "status $got"
    ! grep -q Traceback err || fail traceback
done; try 0 heed translate E <a.de

#### two Ctrl-C
"$PYTHON" -c "
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.executable, [sys.executable, '-m', 'heed', 'train', 'r.toml', '--to', 'E', '--set',
                          'training.updates=100000'])" >out 2>err &
        log_has E '"loss"'; kill -INT $!; sleep 0.05; kill -INT $!; ends 130
        ! grep -q Traceback err || fail traceback; try 0 heed translate E <a.de

#### Ctrl-C while it translates
many >big; "$PYTHON" -c "
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.executable, [sys.executable, '-m', 'heed', 'translate', 'D', '--beam', '9', '--workers', '2'])" <big >out 2>err &
        workers=$(children $!); kill -INT $!; s=$SECONDS; ends 130
        is $((SECONDS - s)) -lt 5; ! grep -q Traceback err || fail traceback; for w in $workers; do gone $w; done

#### a checkpoint of another training
try 0 heed train r.toml --to E --set training.seed=5; cp E/checkpoint.pt D/checkpoint.pt
try 1 heed train r.toml --to D --set training.updates=70; says 'another recipe'; brief

#### weights of another training
try 0 heed train r.toml --to E --set training.seed=5; cp E/model.safetensors D/
try 1 heed translate D <a.de; says 'another recipe'; brief

#### sub-words of another training
sed 's/e/i/g' a.de >b.de; try 0 heed train r.toml --to E --set 'data.train=["b.de", "a.en"]'
cp E/subwords.json D; try 1 heed translate D <a.de; says 'not the vocabulary'; brief

#### each file of a model removed
for f in recipe.toml subwords.json model.safetensors; do
    cp -r D E; rm E/$f; try 1 heed translate E <a.de; says "has no $f"; brief; rm -r E
done

#### each file of a model emptied
for f in recipe.toml subwords.json model.safetensors; do
    cp -r D E; : >E/$f; try 1 heed translate E <a.de; brief; rm -r E
done

#### each file of a model a folder
for f in recipe.toml subwords.json model.safetensors; do
    cp -r D E; rm E/$f; mkdir E/$f; try 1 heed translate E <a.de; brief; rm -r E
done

#### bits of the recipe and the sub-words
for f in recipe.toml subwords.json; do for at in 9 33 77 120; do
    cp -r D E; flip E/$f $at 1; heed translate E <a.de >out 2>err; got=$?
    ! grep -q Traceback err || fail traceback; [ $got = 1 ] || cmp -s out a.en || fail 'another answer'; rm -r E
done; done

#### a pickle that does harm
"$PYTHON" -c "
import os, torch
class Harm:
    def __reduce__(self): return os.mkdir, ('harmed',)
torch.save({'fingerprint': '', 'state': Harm()}, 'D/best.pt')"
        try 1 heed translate D --weights best <a.de; is ! -e harmed; brief

#### weights that are nowhere
try 1 heed translate D --weights nix <a.de; brief; try 1 heed translate D --weights D <a.de; brief

#### a beam of nothing
for b in 0 -1; do try 1 heed translate D --beam $b <a.de; brief; done; try 2 heed translate D --beam x <a.de

#### a beam wider than the vocabulary
try 0 heed translate D --beam 500 <a.de; is $(wc -l <out) = 16

#### devices that are none
for d in abacus cuda:x '' cpu:7; do try 2 heed translate D --device "$d" <a.de; done
for d in cuda cuda:0 cuda:99 mps; do try 1 heed translate D --device $d <a.de; says 'no device'; brief; done

#### nothing to translate
try 0 heed translate D </dev/null; is ! -s out; : >e; try 0 heed translate D e; is ! -s out

#### a file without an end of line
printf drei >one; try 0 heed translate D <one; test "$(cat out)" = three

#### one line out for each line in
printf 'drei\r\n\n \t\ndrei\xe2\x80\xa8vier\n\x00\n\xf0\x9f\x90\x95\n' >odd; try 0 heed translate D <odd
is $(wc -l <out) = 6; is "$(head -1 out)" = three

#### a line of a million letters
head -c 100000 /dev/zero | tr '\0' a >long; try 0 heed translate D <long; is $(wc -l <out) = 1

#### a folder to translate
try 1 heed translate D D; says 'Is a directory'; brief

#### a test of different lengths
head -3 a.en >c; try 1 heed evaluate D --test a.de c; says '16 lines'; brief

#### a test that is not there
try 1 heed evaluate D --test x y; says 'cannot be read'; try 1 heed evaluate D --test x; brief

#### an evaluation as JSON
try 0 heed evaluate D --json --save w; "$PYTHON" -c "import json; assert json.load(open('out'))['sentences'] == 16"
cmp w a.en || fail differs; try 1 heed evaluate D --save /nowhere/w; brief

#### an average of nothing
rm -r D/snapshots; try 1 heed average D; says 'nothing to average'; brief; is ! -e D-average

#### an average into the model
try 1 heed average D --to D; says 'is there already'; works

#### an average of one cut snapshot
truncate -s 900 D/snapshots/000000040.pt; try 1 heed average D; says 'is cut'; is ! -e D-average

#### an export of another kind
try 1 heed export D --to ctranslate2 --kind int3; says int8; try 2 heed export D --to onnx

#### an export that is compared
try 0 heed export D --to ctranslate2 --folder X --check a.de; says '16 of 16'

#### an export compared with nothing
try 1 heed export D --to ctranslate2 --folder X --check nix; is ! -e X; brief

#### a page into nowhere
try 1 heed show D drei --to /nowhere/p.html; brief; try 1 heed show D '' --to p.html; says empty; brief

#### signs that no font has
try 0 heed show D '𓀀 ؟ 字' --to p.html; is -s p.html

#### curves of nothing
try 1 heed plot r.toml; says 'no log'; try 1 heed plot nix; brief; try 1 heed plot D --to /nowhere/c.png; brief

#### curves of two
cp -r D E; try 0 heed plot D E; is -s curves.png; try 1 heed plot D --to c.xyz; brief

#### a check without a training
try 0 heed train r.toml --check; says 'tokens/s'; is ! -e runs; try 1 heed train nix.toml --check

#### no torch in this memory
(ulimit -v 300000; try 1 heed translate D <a.de; brief) || exit 9

#### no processes in this system
many >big; (ulimit -u 1 2>/dev/null; heed translate D --workers 2 <big >out 2>err; true); ! grep -q Traceback err || fail traceback

#### no open files in this system
(ulimit -n 12; heed translate D <a.de >out 2>err; true); ! grep -q Traceback err || fail traceback

#### torchrun with two
export OMP_NUM_THREADS=1
"$PYTHON" -m torch.distributed.run --standalone --nproc-per-node=2 -m heed train r.toml --to E --device cpu >out 2>err
is $? = 0; works E; is $(grep -c 'The model is in' out) = 1
try 0 heed train r.toml --to E --set training.updates=62; says 'from step 60'

#### torchrun with a recipe that is wrong
"$PYTHON" -m torch.distributed.run --standalone --nproc-per-node=2 -m heed train r.toml --to r.toml --device cpu >out 2>err
is $? = 1; grep -q 'File exists' err || fail words

#### another folder as the current one
mkdir sub; cd sub; try 0 heed train ../r.toml --to ../E; cd ..; works E

#### a folder that has been moved
mv D E; mkdir s; mv a.de a.en s; try 0 heed translate E <s/a.de; cmp out s/a.en

#### links instead of files
mkdir L; for f in recipe.toml subwords.json model.safetensors; do ln -s ../D/$f L/$f; done; works L
ln -s D link; try 0 heed train r.toml --to link --set training.updates=61; works link
