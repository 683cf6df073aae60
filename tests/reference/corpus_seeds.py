# SPDX-License-Identifier: Apache-2.0
"""What make_corpus.py mixes: sentences in many scripts, code, markup, and everything that tokenizers trip over."""

SENTENCES = [
    # English
    "The river rose all night, and by morning the lower gate wouldn't close.",
    "She'd said they'll come; we've waited, I'm sure it's late, and he'd rather not.",
    "WE'RE SHOUTING: IT'S THE KEEPER'S TURN, ISN'T IT? THEY'VE LEFT!",
    "A lock raises boats from one stretch of water to another -- slowly, carefully, without hurry.",
    "“Quoted,” she said—then ‘quoted again’… and stopped.",
    "State-of-the-art re-entrant co-operation; naïve café résumé, coöperate, Ångström.",
    # German, Dutch, Danish, Swedish, Norwegian, Icelandic
    "Der Schleusenwärter öffnete das Tor; die Straße war naß, größer als gedacht.",
    "Donaudampfschifffahrtsgesellschaftskapitänsmütze und Rindfleischetikettierungsüberwachung.",
    "De sluiswachter zei: 's morgens is het water 'n stuk lager, zo'n dertig centimeter.",
    "Blåbærgrød på æblekage, og søen lå stille under åen.",
    "Räksmörgåsar åt vi på ön, fast det blåste över fjärden.",
    "Það var gott veður þegar skipið sigldi út úr höfninni í Reykjavík.",
    # French, Spanish, Portuguese, Italian, Catalan, Romanian
    "L'éclusier n'a pas fermé la porte ; c'était déjà l'été, voilà où l'on allait.",
    "¿Quién abrió la compuerta? ¡El señor Núñez, mañana por la mañana!",
    "A água subiu até à comporta; não há pão, só maçãs e ações.",
    "Perché l'acqua è così alta? È già città, virtù e libertà.",
    "Col·legi, paral·lel, l'aigua puja i baixa: és l'hora del dinar.",
    "Apa crește încet; țăranii și pescarii așteaptă în fața ecluzei.",
    # Polish, Czech, Hungarian, Finnish, Estonian, Latvian, Lithuanian, Turkish
    "Zażółć gęślą jaźń: śluza pod Łodzią była zamknięta.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy u zdymadla.",
    "Árvíztűrő tükörfúrógép, és a zsilip őre csöndben ült.",
    "Hyvää yötä! Äiti näki yöllä jäätä sulun yllä, ja öljyä.",
    "Lüüs avanes õhtul, jõgi öösel külmus täis.",
    "Ūdens līmenis cēlās; ķirši, ģimene, šķūnis un ņemšana.",
    "Ąžuolas žydėjo šalia šliuzo, įlanka ėjo gilyn.",
    "İstanbul'da ışıklar söndü; ığdır çiğ köfteyi şöyle büyük yedi.",
    # Cyrillic
    "Шлюз открыли рано утром, и вода пошла вниз, к морю.",
    "Ґанок під їхнім дахом, а п'ять м'ячів лежать у човні.",
    "Ђаци су чекали крај бране: њихов чамац љуља се.",
    "Қазақстанда өзен суы көтерілді, үңгірде ұйықтады.",
    "Водата се покачи, а шлюзът остана затворен ѝ.",
    # Greek, Armenian, Georgian
    "Το νερό ανέβηκε· ποιος άνοιξε την πύλη; Ὦ ἄνδρες Ἀθηναῖοι, ᾧ ᾳ ῥυθμός.",
    "Ջուրը բարձրացավ, և դարպասը փակ մնաց։ Ի՞նչ եղավ։",
    "წყალი ადიდდა და ჭიშკარი დაკეტილი დარჩა. ᲬᲧᲐᲚᲘ!",
    # Arabic, Persian, Urdu, Hebrew, Syriac
    "فُتِحَتِ البَوّابةُ عند الفجر، وارتفع الماء ببطء؛ هل رأيتَ السفينة؟ ١٢٣٤٥",
    "دروازه‌ها را می‌بندیم؛ آب بالا آمده است، پارسی چهارگوش ۶۷۸۹۰",
    "پانی بہت اوپر آ گیا ہے، ٹھیک ہے؟ یہ دروازہ کس نے کھولا۔",
    "הַמַּיִם עָלוּ בַּלַּיְלָה; מי פתח את השער? זה \"צה״ל\" וג׳ירפה.",
    "ܡܝܐ ܥܠܘ ܒܠܠܝܐ ܘܬܪܥܐ ܐܬܦܬܚ",
    # Indic
    "रात भर नदी बढ़ती रही, और सुबह फाटक बंद नहीं हुआ। क्षत्रिय ज्ञान १२३",
    "নদীর জল সারা রাত বেড়েছে; দরজা বন্ধ হয়নি। ক্ষমা ১২৩৪",
    "ஆற்றில் நீர் உயர்ந்தது; கதவு மூடவில்லை. க்ஷ ஸ்ரீ ௧௨௩",
    "నది రాత్రంతా పెరిగింది; తలుపు మూయలేదు. క్షమించండి",
    "ನದಿ ರಾತ್ರಿಯಿಡೀ ಏರಿತು; ಬಾಗಿಲು ಮುಚ್ಚಲಿಲ್ಲ.",
    "പുഴ രാത്രി മുഴുവൻ ഉയർന്നു; വാതിൽ അടഞ്ഞില്ല. ന്‍ ൺ",
    "નદી આખી રાત વધી; દરવાજો બંધ ન થયો.",
    "ਦਰਿਆ ਸਾਰੀ ਰਾਤ ਚੜ੍ਹਦਾ ਰਿਹਾ; ਫਾਟਕ ਬੰਦ ਨਾ ਹੋਇਆ।",
    "ගඟ මුළු රැයම ඉහළ ගියා; දොර වැසුණේ නැත. ශ්‍රී ලංකා",
    # South-east Asia, Tibet, Mongolia, Ethiopia, Cherokee
    "น้ำขึ้นทั้งคืน ประตูน้ำปิดไม่สนิท ๑๒๓ เก้าอี้ ผู้ใหญ่",
    "ແມ່ນ້ຳຂຶ້ນໝົດຄືນ ປະຕູບໍ່ປິດ",
    "မြစ်ရေ တစ်ညလုံး တက်ခဲ့ပြီး တံခါး မပိတ်ပါ။",
    "ទឹកទន្លេឡើងពេញមួយយប់ ហើយទ្វារមិនបិទ។",
    "ཆུ་ཚོད་མཐོ་རུ་ཕྱིན་ནས་སྒོ་མ་བརྒྱབ།",
    "ᠤᠰᠤ ᠳᠡᠭᠡᠭᠰᠢᠯᠡᠪᠡ ᠬᠠᠭᠠᠯᠭ᠎ᠠ",
    "ውሃው ሌሊቱን ሙሉ ጨመረ፤ በሩ አልተዘጋም።",
    "ᎠᎹ ᎤᏒᎯ ᏃᏊ ᎦᎶᎯᏍᏗ ꭰꮉ",
    # Vietnamese, Yoruba and other Latin with stacked marks
    "Nước dâng suốt đêm; cửa cống không đóng được, người ta chờ đợi ở Huế.",
    "Ẹ jọ̀ọ́, ọmọ náà ti lọ sí ọjà láàárọ̀; ṣé ẹ ti rí i?",
    "ʻO ka wai i piʻi i ka pō; Hawaiʻi, Oʻahu, Kauaʻi.",
    # CJK, Korean
    "水位一夜上涨,闸门没有关上。2024年3月5日,约有1,234艘船等候!",
    "水閘管理員說:「今天早上,門還開著。」龍龜鬱籲",
    "夜のあいだに水が上がり、水門は閉まらなかった。カタカナとひらがな、漢字。",
    "ハンカクカナ と 全角ABC123!?~「」、ヴァイオリン ガギグゲゴ がぎぐげご",
    "밤새 강물이 불어나서 아침에는 수문이 닫히지 않았다. ㅋㅋㅋ ㅠㅠ 각힣",
    "𠮷野家で𩸽を食べる。𪚥 𠀀 㐂 豈 更 車 﨑",
]

CODE = [
    "def lock(gate: int = 0) -> list[str]:\n    return [f\"{gate:03d}\" for _ in range(10)]  # done",
    "for (size_t i = 0; i < n; ++i) { sum += a[i] * b[i]; } // O(n)",
    "#include <vector>\ntemplate <typename T> T&& move(T& t) noexcept;",
    "fn main() -> Result<(), Box<dyn Error>> {\n\tprintln!(\"{:?}\", x?);\n\tOk(())\n}",
    "const f = async ({a, b: [c, ...d]}) => `${a ?? c}` !== null && d?.[0];",
    "SELECT id, COUNT(*) AS n FROM locks WHERE level >= 3.5 GROUP BY id ORDER BY n DESC;",
    "public static void main(String[] args) throws IOException { System.out.printf(\"%d%n\", 0x7fffL); }",
    "func (s *Server) Open(ctx context.Context) (err error) { defer func() { err = recover() }() }",
    "if [[ -n ${VAR:-} ]]; then echo \"$VAR\" | sed -E 's/^[[:space:]]+//g' >&2; fi",
    "(define (fact n) (if (= n 0) 1 (* n (fact (- n 1)))))",
    "main :: IO ()\nmain = mapM_ print $ takeWhile (<100) [x^2 | x <- [1..], odd x]",
    "<div class=\"gate open\" data-id='7'>&nbsp;&lt;water&gt;<br/></div><!-- note -->",
    ".gate > li:nth-child(2n+1)::before { content: \"\\201C\"; width: calc(100% - 2rem); }",
    "{\"id\": 17, \"tags\": [\"a\", null, true, -1.5e-10], \"nested\": {\"k\": {}}}",
    "apiVersion: v1\nkind: Gate\nmetadata:\n  name: lower-gate\n  labels: {tier: \"3\"}\n",
    "# Title\n\n* item **bold** _it_ `code`\n1. one\n\n| a | b |\n|---|:-:|\n> quote\n\n```py\npass\n```\n",
    "\\begin{equation} \\sum_{i=0}^{\\infty} \\frac{x^i}{i!} = e^{x} \\end{equation}",
    "x = y if z else w; a, b = b, a; print(f'{x!r:>10}', end='')\t# TODO(me): fix",
    "let s: String = \"\\u{1F600}\\n\".into(); match s.len() { 0 => {}, n @ 1..=9 => n, _ => !0 };",
    "https://example.org:8080/a/b.html?q=1&r=%20x#frag user.name+tag@mail.example.co.uk",
    "C:\\Users\\gate\\file.txt /usr/local/bin/../lib64 ~/.config/x.toml s3://bucket/key=1/part-00000.gz",
    "2024-02-29T23:59:59.999Z 192.168.0.1 fe80::1ff:fe23:4567:890a 550e8400-e29b-41d4-a716-446655440000",
    "+49 (0)30 123-4567 $1,234,567.89 €12,50 £3 ¥1000 5% 3.14159265358979 6.02e23 0b1011 0o17 1_000_000",
    "²³¹ ½ ⅓ Ⅻ ⅷ ① ⑳ ㊿ ٣ ४ ৫ 𝟘𝟙𝟚 𝐀𝐁 𝔘𝔫𝔦 ﬁ ﬂ ﬀ ™ ℃ № ㎏ ㍿ ª º",
    "→ ⇒ ∀x∈ℝ: ⌈x⌉ ≥ x ∧ ¬∃y ∑∏∫ √2 ≠ ≈ ± × ÷ ∞ ∅ ⊂ ⊕ █▓▒░ ┌─┐│└┘ ▲▼ ★☆ ♠♥ ✓✗",
]

PIECES = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<s>",
    "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<think>", "</think>",
    "<tool_call>", "</tool_call>", "<|im_start", "|im_end|>", "<|im_start|>user\n", "<|IM_START|>", "< s >", "[INST]",
    "[/INST]", "<<SYS>>", "<unused0>", "<unused99>", "<mask>", "[multimodal]", "<0x0A>", "<0xE2>", "<0xZZ>", "▁", "▁▁",
    "▁the", "Ġ", "Ġthe", "Ċ", "##ing", "</w>", "<|reserved_special_token_5|>", "<|vision_start|>", "<|fim_prefix|>",
    "<h1>", "</table>", "<|", "|>", "<<|im_end|>>", "<image_soft_token>", "<|endoftext|><|endoftext|>",
    # emoji: joiners, skin tones, flags, keycaps, variation selectors, tags
    "😀", "😂😂😂", "👍🏽", "👩‍🚀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷🇯🇵", "🇺", "1️⃣#️⃣", "❤️", "☺︎", "🏴\U000e0067\U000e0062"
    "\U000e0065\U000e006e\U000e0067\U000e007f", "🧑🏿‍🤝‍🧑🏻", "🫠", "🤌🏼", "⌚⏰", "🀄🃏",
    # combining marks and joiners
    "e\u0301", "a\u030a", "o\u0302\u0323", "\u0301", "q\u0307\u0323", "Z\u0351\u036b\u0343\u036a\u0302a\u0321\u033e\u0313l"
    "\u0334\u0317g\u0353\u0330o\u0489", "\u1112\u1161\u11ab", "\u1100\u1161", "\uac00\u11a8", "\u212b", "\u2126",
    "\u0958", "\u0915\u093c", "\u0344", "\u0f73", "\u1e9b\u0323", "\ufb1d", "\u2adc", "\u0340\u0341", "A\u0301\u0328",
    "\u200d", "\u200c", "\u200b", "\u2060", "\ufeff", "\u00ad", "\u202e\u202c", "\u200e\u200f",
    # control characters, private use, noncharacters, far planes
    "\x00", "\x01\x02", "\x07\x08", "\x0b", "\x0c", "\x1b[31mred\x1b[0m", "\x1c\x1d\x1e\x1f", "\x7f", "\x80\x81", "\x85",
    "\x9f", "\ue000\uf8ff", "\ufffd", "\ufffe\uffff", "\U000f0000\U0010fffd", "\U0010ffff", "\U0001d11e", "\U00012000",
    "\U00013000\U00013001", "\U00010330", "\U00020000\U0002a6d6", "\U0001f9ff", "\U000e0100",
    # apostrophes and contractions
    "'s", "'S", "'re", "'LL", "'\u017f", "’s", "''", "'", "n't", "'Tis", "'ve'", "'d'd'd", "I'M", "'\u0130", "\u0130",
    "\u0131", "\u00df", "\u1e9e", "\u01c5", "\u2028", "\u2029",
]

WHITESPACE = [
    " ", " ", " ", " ", "  ", "   ", "    ", "     ", "        ", "                ", "\t", "\t\t", " \t ", "\n", "\n\n",
    "\n\n\n", "\r\n", "\r\n\r\n", "\r", " \n", "\n ", "\n    ", "\n\t\t", " \r\n ", "\u00a0", "\u2003", "\u2009\u200a",
    "\u3000", "\u202f", "\u205f", "\u1680", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", " \u00a0 ", "\n \n \n", "  \n\n  ",
    "", "", "", ", ", ". ", "; ", ": ", "-", "/", "_", "...", "!", "?!", " - ", "\u2014", "\u2026",
]

# Letters, marks, digits, symbols and gaps of scripts that were encoded by Unicode 11, so that the classes of these
# code points do not depend on the Unicode version of a library.
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x300, 0x36F),
    (0x370, 0x377), (0x391, 0x3A1), (0x400, 0x4FF), (0x561, 0x586), (0x5D0, 0x5EA), (0x620, 0x64A), (0x64B, 0x669),
    (0x900, 0x94F), (0xB95, 0xB95), (0xE01, 0xE3A), (0xF40, 0xF47), (0x10D0, 0x10FA), (0x1100, 0x11FF),
    (0x1E00, 0x1EFF), (0x1F00, 0x1F15), (0x2000, 0x206F), (0x2070, 0x2071), (0x20A0, 0x20BF), (0x2100, 0x214F),
    (0x2150, 0x2189), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2460, 0x24FF), (0x2500, 0x257F), (0x3041, 0x3096),
    (0x30A1, 0x30FF), (0x3400, 0x4DB5), (0x4E00, 0x9FCC), (0xA000, 0xA48C), (0xAC00, 0xD7A3), (0xE000, 0xF8FF),
    (0xF900, 0xFA6D), (0xFB00, 0xFB06), (0xFE00, 0xFE0F), (0xFF01, 0xFF5E), (0x10330, 0x1034A), (0x1D400, 0x1D454),
    (0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x20000, 0x2A6D6), (0x0, 0x1F), (0x7F, 0x9F),
]
